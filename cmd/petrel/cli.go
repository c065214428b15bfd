package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/petrel-im/petrel/internal/config"
)

// cli is what all commands share: where they read and write, and the flags
// that every command has.
type cli struct {
	env []string // NAME=value
	in  io.Reader
	out io.Writer
	err io.Writer

	json         bool
	configFile   string
	data         string
	server       string
	adminKeyFile string
}

// command makes the RunE of a command: an error that is no fault yet is the
// failure of what the command does.
func command(do func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := do(cmd, args); err != nil {
			return failed(err)
		}
		return nil
	}
}

// group makes a command that only has commands below it.
func group(use, short, example string, below ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Example: example, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(below...)
	return cmd
}

// getenv is the variable name of the environment, "" when it is not set.
func (c *cli) getenv(name string) string {
	for _, kv := range c.env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// listText writes a list of the file as a flag takes it: ["a", "b"] as a,b.
var listText = strings.NewReplacer("[", "", "]", "", `", "`, ",", `"`, "")

// addOptionFlags gives cmd one flag for each option of the configuration.
func addOptionFlags(fs *pflag.FlagSet) {
	for _, o := range config.Options() {
		name := config.FlagName(flagOption(o))
		if name == "data" { // is there for all commands
			continue
		}
		def := listText.Replace(o.Default)
		if o.Secret {
			def = ""
		}
		fs.Var(&optionFlag{value: def}, name, o.Flag)
		if o.Default == "false" || o.Default == "true" {
			fs.Lookup(name).NoOptDefVal = "true"
		}
	}
}

// flagOption is the option that the flag of o sets: of a secret its file, since
// every user of a host sees its command lines.
func flagOption(o config.Value) string {
	if o.Secret {
		return o.Name + "_file"
	}
	return o.Name
}

// optionFlag keeps what was written; the configuration judges it.
type optionFlag struct{ value string }

func (f *optionFlag) String() string     { return f.value }
func (f *optionFlag) Set(s string) error { f.value = s; return nil }
func (f *optionFlag) Type() string       { return "VALUE" }

// load reads the configuration with the flags that were given to cmd.
func (c *cli) load(cmd *cobra.Command) (*config.Config, error) {
	given := map[string]string{}
	for _, o := range config.Options() {
		option := flagOption(o)
		if f := cmd.Flags().Lookup(config.FlagName(option)); f != nil && f.Changed {
			given[option] = f.Value.String()
		}
	}
	conf, err := config.Load(config.Source{File: c.configFile, Search: config.DefaultFiles, Env: c.env, Flags: given})
	if err != nil {
		return nil, badConfig(err)
	}
	return conf, nil
}

// target is the server that a command talks to.
type target struct {
	url  string // http:// or https:// for the API; ws, wss, tcp, tls for connections only
	data string // data folder; need not exist
}

func (c *cli) target(cmd *cobra.Command) (target, error) {
	conf, err := c.load(cmd)
	if err != nil {
		return target{}, err
	}
	t := target{url: c.server, data: conf.Store.Dir}
	if t.url == "" {
		t.url = c.getenv("PETREL_SERVER")
	}
	if t.url == "" {
		t.url = localURL(conf)
	}
	u, err := url.Parse(t.url)
	if err != nil || u.Host == "" {
		return target{}, usage(fmt.Sprintf("%q is not the address of a server", t.url), "write it like http://127.0.0.1:8080")
	}
	t.url = strings.TrimRight(t.url, "/")
	return t, nil
}

// localURL is where a server with this configuration is reached from its own
// host.
func localURL(conf *config.Config) string {
	scheme := "http"
	if conf.TLS.On() {
		scheme = "https"
	}
	addr := conf.Listen.HTTP
	if addr == "" {
		addr = config.Default().Listen.HTTP
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil { // the configuration was checked
		return scheme + "://" + addr
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// print writes v as JSON when that was asked for, else what text writes.
func (c *cli) print(v any, text func(w io.Writer)) error {
	if !c.json {
		text(c.out)
		return nil
	}
	e := json.NewEncoder(c.out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// readsTerminal tells whether r is a terminal.
func readsTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && term.IsTerminal(f.Fd())
}

// isTerminal tells whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	i, err := f.Stat()
	return err == nil && i.Mode()&os.ModeCharDevice != 0
}
