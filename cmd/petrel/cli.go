package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/petrel-im/petrel/internal/config"
	"github.com/petrel-im/petrel/internal/logbuffer"
	"github.com/petrel-im/petrel/internal/terminal"
)

// cli is shared by all commands: their input and output, and the flags that every command has.
type cli struct {
	env []string // NAME=value
	in  io.Reader
	out io.Writer // like err a terminal.Writer: texts of users do not steer a terminal
	err io.Writer

	flush func() // writes the buffers of out and err, for at most lastWords each; nil: they have none

	// dial connects clients; nil: by the network.
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	json         bool
	configFile   string
	data         string
	server       string
	adminServer  string
	adminKeyFile string
}

// command makes the RunE of a command from do. If do returns an error that is no fault, RunE returns a fault with the
// code failed.
func command(do func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := do(cmd, args); err != nil {
			return failed(err)
		}
		return nil
	}
}

// group makes a command that only has commands below it. By itself it prints its help.
func group(use, short, example string, below ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Example: example, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(below...)
	return cmd
}

// getenv returns a variable of the environment, "" if it is not set.
func (c *cli) getenv(name string) string {
	for _, kv := range c.env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// listText converts a list in the form of the configuration file into the form of a flag: ["a", "b"] into a,b.
var listText = strings.NewReplacer("[", "", "]", "", `", "`, ",", `"`, "")

// options returns the options of the configuration. Several commands have a flag for each of them.
var options = sync.OnceValue(config.Options)

// addOptionFlags adds to fs a flag for each option of the configuration except store.dir, whose flag --data all
// commands have.
func addOptionFlags(fs *pflag.FlagSet) {
	for _, o := range options() {
		name := config.FlagName(flagOption(o))
		if name == "data" { // newRoot adds it for all commands
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

// flagOption returns the option that the flag of o sets. For a secret it is the one that names its file, since
// every user of a host sees its command lines.
func flagOption(o config.Value) string {
	if o.Secret {
		return o.Name + "_file"
	}
	return o.Name
}

// noWeb is the short form of --web-enabled=false.
const noWeb = "no-web"

// optionFlag keeps the text of a flag. config.Load checks the text.
type optionFlag struct{ value string }

func (f *optionFlag) String() string     { return f.value }
func (f *optionFlag) Set(s string) error { f.value = s; return nil }
func (f *optionFlag) Type() string       { return "VALUE" }

// load reads the configuration with the flags that were given to cmd.
func (c *cli) load(cmd *cobra.Command) (*config.Config, error) {
	return c.loadAgain(cmd, "")
}

// loadAgain reads the configuration as load does. file names the configuration file that the first load has read; ""
// stands for none. If that file is gone, loadAgain returns an error: without it everything would be at its default.
func (c *cli) loadAgain(cmd *cobra.Command, file string) (*config.Config, error) {
	given := map[string]string{}
	for _, o := range options() {
		option := flagOption(o)
		if f := cmd.Flags().Lookup(config.FlagName(option)); f != nil && f.Changed {
			given[option] = f.Value.String()
		}
	}
	if f := cmd.Flags().Lookup(noWeb); f != nil && f.Changed && f.Value.String() == "true" {
		given["web.enabled"] = "false"
	}
	conf, err := config.Load(config.Source{File: cmp.Or(c.configFile, file), Search: config.DefaultFiles, Env: c.env,
		Flags: given})
	if err != nil {
		return nil, badConfig(err)
	}
	return conf, nil
}

// target is the server that a command talks to.
type target struct {
	url   string // http:// or https:// for the API; ws, wss, tcp, tls for connections only
	admin string // of the API of operators
	data  string // data folder; need not exist
}

func (c *cli) target(cmd *cobra.Command) (target, error) {
	conf, err := c.load(cmd)
	if err != nil {
		return target{}, err
	}
	local, localAdmin, gone, err := localURLs(conf)
	if err != nil {
		return target{}, err
	}
	t := target{url: cmp.Or(c.server, c.getenv("PETREL_SERVER"), local),
		admin: cmp.Or(c.adminServer, c.getenv("PETREL_ADMIN_SERVER")), data: conf.Store.Dir}
	switch {
	case t.admin != "":
	case gone && t.url == local:
		return target{}, &fault{exit: exitUnreachable, code: "unreachable", what: "no server runs on the data folder " +
			t.data,
			why: "the last one was killed: it could not remove the file " + addressesName +
				", which says that it was at " + local,
			fix: "start it with `petrel serve --data " + t.data + "`, or name another server with --server URL"}
	case sameServer(t.url, local):
		t.admin = localAdmin
	default: // the server was named: a command never goes to another one
		t.admin = t.url
	}
	for _, addr := range []*string{&t.url, &t.admin} {
		u, err := url.Parse(*addr)
		if err != nil || u.Host == "" {
			return target{}, usage(fmt.Sprintf("%q is not the address of a server", *addr),
				"write it like http://127.0.0.1:8080")
		}
		*addr = strings.TrimRight(*addr, "/")
	}
	return t, nil
}

// shellWord quotes a text as one word of a shell.
func shellWord(text string) string {
	if text != "" && !strings.ContainsAny(text, " \t\n\"'`$&|;<>()*?[]{}!#~\\") {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// sameWay returns a command line to print: the program, a command, and the flags by which cmd found the server,
// so that the printed command finds the same one.
func sameWay(cmd *cobra.Command, command string) string {
	program := "petrel"
	if filepath.Base(os.Args[0]) == program {
		program = shellWord(os.Args[0])
	}
	line := program + " " + command
	for _, name := range []string{"config", "data", "server"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			line += " --" + name + " " + shellWord(f.Value.String())
		}
	}
	return line
}

// sameServer tells whether two URLs have the same scheme and port, and the same host. All loopback addresses count as
// one host.
func sameServer(a, b string) bool {
	u, err := url.Parse(a)
	v, e := url.Parse(b)
	if err != nil || e != nil || u.Scheme != v.Scheme || u.Port() != v.Port() {
		return false
	}
	return u.Hostname() == v.Hostname() || config.Loopback(withPort(u)) && config.Loopback(withPort(v))
}

// localURLs returns the addresses for users and operators of the server of this host. It takes them from the file
// addresses in the data folder, which the server writes: flags may have given the server other addresses than the
// configuration has. If that file is missing or cannot be read, it takes them from the configuration. gone says that
// the server that wrote the file runs no more.
func localURLs(conf *config.Config) (public, admin string, gone bool, err error) {
	var running struct{ HTTP, Admin string }
	name := filepath.Join(conf.Store.Dir, addressesName)
	text, err := readSecret(name)
	if err == nil {
		err = json.Unmarshal([]byte(text), &running)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission):
		return localURL(conf), localAdminURL(conf), false, nil
	case err != nil:
		return "", "", false, fmt.Errorf("read the addresses of the server: %w", err)
	}
	public = cmp.Or(running.HTTP, localURL(conf))
	return public, cmp.Or(running.Admin, public), !locked(name), nil
}

// locked tells whether the server that wrote the file addresses still runs. The server holds a lock on the file, which
// the system removes when the process ends.
func locked(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return true // the file was just removed; if the server is gone, the next call fails
	}
	defer func() { _ = f.Close() }() // read-only; ends the lock
	return syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil
}

// localAdminURL returns the URL by which its own host reaches listen.admin of a server with this configuration. If
// listen.admin is empty, it returns that of listen.http, which does not serve the scopes server, backup and admin.
func localAdminURL(conf *config.Config) string {
	if conf.Listen.Admin == "" {
		return localURL(conf)
	}
	scheme := "http"
	if conf.TLS.On() && !config.Loopback(conf.Listen.Admin) {
		scheme = "https"
	}
	return urlOf(scheme, conf.Listen.Admin)
}

// localURL returns the URL by which its own host reaches listen.http of a server with this configuration.
func localURL(conf *config.Config) string {
	scheme := "http"
	if conf.TLS.On() {
		scheme = "https"
	}
	addr := conf.Listen.HTTP
	if addr == "" {
		addr = config.Default().Listen.HTTP
	}
	return urlOf(scheme, addr)
}

func urlOf(scheme, addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil { // the configuration was checked
		return scheme + "://" + addr
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// print writes v as JSON if that was asked for, else the output of text.
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
	return ok && term.IsTerminal(int(f.Fd()))
}

// bare returns the innermost writer that w wraps, for bytes that are no text, and for output that moves the cursor.
func bare(w io.Writer) io.Writer {
	for {
		wrapped, ok := w.(interface{ Unwrap() io.Writer })
		if !ok {
			return w
		}
		w = wrapped.Unwrap()
	}
}

// buffer puts buffers before c.out and c.err. So the reader of the output can neither block the command nor end it by a
// SIGPIPE. It sets c.flush, and returns the buffer of c.err.
func (c *cli) buffer() *logbuffer.Writer {
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE) // so a write to a pipe without a reader returns an error
	out, err := logbuffer.New(bare(c.out)), logbuffer.New(bare(c.err))
	c.out, c.err = terminal.NewWriter(out), terminal.NewWriter(err)
	c.flush = func() {
		ended := out.Close(lastWords)
		if err.Close(lastWords) && ended {
			signal.Stop(pipes)
		}
	}
	return err
}

// lastWords bounds how long an ending command waits for the reader of c.out, and then for that of c.err.
const lastWords = time.Second

// isTerminal tells whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := bare(w).(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
