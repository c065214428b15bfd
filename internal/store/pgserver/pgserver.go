//go:build unix

// Package pgserver runs PostgreSQL servers for tests and measurements. Each has its own data in a temporary
// folder, listens on loopback, and runs as a user that is not root. The package needs the server's programs,
// which Debian's package postgresql brings; its error says so if they are missing.
package pgserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/petrel-im/petrel/internal/process"
)

// errMissing says what to install.
var errMissing = errors.New(
	"the programs of PostgreSQL 15 or newer are not here: apt-get install postgresql, or name their folder in PETREL_PG_BIN")

// Options configure a server.
type Options struct {
	// Settings are those of postgresql.conf. By default the server does not sync to the disk: its commits
	// survive its own death, but not that of the machine. Measurements set fsync=on.
	Settings map[string]string

	// Host is another address of this machine on which the server listens too. Clients in its /24 need no
	// password either. Empty: none.
	Host string

	// Dir is the folder in which the temporary folder is made; the user of the server must be able to enter it.
	// Empty: a folder in memory if the server does not sync and there is room, else the system's folder for
	// temporary files.
	Dir string
}

// Server is one PostgreSQL server. Its superuser is petrel. Clients on loopback need no password, except a user
// named locked.
type Server struct {
	Port int

	bin, dir string
	cred     *syscall.Credential
	primary  *Server // of a standby
	cmd      *exec.Cmd
	ours     io.Closer     // holds Port; nil: nothing does
	ended    chan struct{} // closed when cmd has ended
	names    string        // prefix of the names of its databases
	template string        // the database that Copy copies
	made     atomic.Int64  // databases
}

// limit bounds each wait for a server. Only a faulty server takes that long.
const limit = time.Minute

// Start makes a server with data of its own and starts it.
func Start(o Options) (*Server, error) {
	dir := o.Dir
	if dir == "" && o.Settings["fsync"] != "on" {
		dir = memory()
	}
	s, err := place(dir)
	if err != nil {
		return nil, err
	}
	if out, err := s.command("initdb", "-D", s.data(), "-U", "petrel", "-A", "trust", "-E", "UTF8", "--no-locale",
		"--no-sync").CombinedOutput(); err != nil {
		s.Remove()
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	listen, from := "127.0.0.1", []string{"127.0.0.1/32"}
	if o.Host != "" {
		listen, from = listen+","+o.Host, append(from, o.Host+"/24")
	}
	conf := map[string]string{
		"dynamic_shared_memory_type": "mmap", // in the folder: the remains of a killed server go with it
		"listen_addresses":           "'" + listen + "'", "unix_socket_directories": "'" + s.dir + "'",
		"fsync": "off", "max_connections": "200", "shared_buffers": "128MB", "max_wal_size": "1GB",
		"log_min_messages": "warning",
	}
	for k, v := range o.Settings {
		conf[k] = v
	}
	var b strings.Builder
	for k, v := range conf {
		fmt.Fprintf(&b, "%s = %s\n", k, v)
	}
	hba := ""
	for _, addrs := range from {
		hba += fmt.Sprintf(
			"host all locked %[1]s scram-sha-256\nhost all all %[1]s trust\nhost replication all %[1]s trust\n", addrs)
	}
	for name, text := range map[string]string{"postgresql.auto.conf": b.String(), "pg_hba.conf": hba} {
		if err := s.write(name, text); err != nil {
			s.Remove()
			return nil, err
		}
	}
	if err := s.Start(); err != nil {
		s.Remove()
		return nil, err
	}
	return s, nil
}

// place finds the programs and makes the folder of a server.
func place(in string) (*Server, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	cred, err := account()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(in, "petrelpg") // short: the path of a socket has 107 bytes
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, dir: dir, cred: cred, names: "petrel", template: "template1"}
	if cred != nil {
		if err := os.Chown(dir, int(cred.Uid), int(cred.Gid)); err != nil {
			s.Remove()
			return nil, err
		}
	}
	return s, nil
}

// programs returns the folder with the programs of the newest server, or the one in PETREL_PG_BIN.
func programs() (string, error) {
	if bin := os.Getenv("PETREL_PG_BIN"); bin != "" {
		return bin, nil
	}
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is right
	if p, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(p))
	}
	dirs = slices.DeleteFunc(dirs, func(d string) bool {
		for _, p := range []string{"initdb", "postgres", "pg_basebackup"} {
			if _, err := os.Stat(filepath.Join(d, p)); err != nil {
				return true
			}
		}
		return version(d) < 15
	})
	if len(dirs) == 0 {
		return "", errMissing
	}
	return slices.MaxFunc(dirs, func(a, b string) int { return version(a) - version(b) }), nil
}

// version returns the major version of the server in dir, 0 if it does not tell.
func version(dir string) int {
	out, _ := exec.Command(filepath.Join(dir, "postgres"), "--version").Output() // no output: 0
	for _, f := range strings.Fields(string(out)) {
		if n, err := strconv.Atoi(strings.SplitN(f, ".", 2)[0]); err == nil {
			return n
		}
	}
	return 0
}

// account returns the user that runs the server, since PostgreSQL refuses root; nil: the user of this
// process.
func account() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, err := strconv.ParseUint(u.Uid, 10, 32)
			if err != nil {
				return nil, err
			}
			gid, err := strconv.ParseUint(u.Gid, 10, 32)
			if err != nil {
				return nil, err
			}
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("root may not run PostgreSQL, and there is neither a user postgres nor nobody")
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// command returns the command for a program of the server, with its user and folder.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(s.bin, name), args...)
	c.Dir = s.dir
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	c.SysProcAttr = attributes(s.cred)
	return c
}

func (s *Server) write(name, text string) error {
	path := filepath.Join(s.data(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	if s.cred == nil {
		return nil
	}
	return os.Chown(path, int(s.cred.Uid), int(s.cred.Gid))
}

// Start starts the server, which must not be running, on its port, and returns when it answers.
func (s *Server) Start() error {
	if s.Port == 0 {
		var err error
		if s.Port, s.ours, err = process.FreePort(); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the server has its own
	s.cmd = s.command("postgres", "-D", s.data(), "-p", strconv.Itoa(s.Port))
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.ended = make(chan struct{})
	started := make(chan error, 1)
	go s.run(started) // ends with the server, for which Stop and Kill wait
	if err := <-started; err != nil {
		return err
	}
	return s.wait()
}

// run starts the server and waits for its end, on one thread: the server ends with the thread that started it
// (attributes).
func (s *Server) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(s.ended)
	err := s.cmd.Start()
	started <- err
	if err == nil {
		_ = s.cmd.Wait() // its log says more
	}
}

// wait returns nil when the server answers, and an error if the server ends or does not answer within limit.
func (s *Server) wait() error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for {
		c, err := pgx.Connect(ctx, s.DSN("postgres"))
		if err == nil {
			return c.Close(ctx)
		}
		select {
		case <-s.ended:
			return fmt.Errorf("PostgreSQL ended: %s", s.Log())
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL does not answer: %w: %s", err, s.Log())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// DSN returns the address of a database of the server, for its superuser.
func (s *Server) DSN(database string) string {
	return fmt.Sprintf("postgres://petrel@127.0.0.1:%d/%s?sslmode=disable", s.Port, database)
}

// Create makes a new, empty database and returns its DSN.
func (s *Server) Create() (string, error) { return s.create("template1") }

// Copy makes a new database without a store and returns its DSN. The database has the tables of a store if the
// server has a Template; else it is empty.
func (s *Server) Copy() (string, error) { return s.create(s.template) }

func (s *Server) create(from string) (string, error) {
	name := s.names + strconv.FormatInt(s.made.Add(1), 10)
	if err := s.Exec("postgres", fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s STRATEGY file_copy", name,
		from)); err != nil {
		return "", fmt.Errorf("create database %s: %w", name, err)
	}
	return s.DSN(name), nil
}

// templateName is the database that Template makes.
const templateName = "petrel_template"

// Template makes the database that Copy copies from then on. fill opens a store in it and closes it. Then Template
// deletes all rows of the store, so that each copy becomes a store of its own.
func (s *Server) Template(fill func(dsn string) error) error {
	if err := s.Exec("postgres", "CREATE DATABASE "+templateName+" STRATEGY file_copy"); err != nil {
		return err
	}
	if err := fill(s.DSN(templateName)); err != nil {
		return fmt.Errorf("fill the template: %w", err)
	}
	s.template = templateName
	return s.Exec(templateName, Empty)
}

// Empty is the statement that deletes all rows of a store except those of the table migrations.
const Empty = `DO $$ DECLARE r record; BEGIN
	FOR r IN SELECT c.oid::regclass AS name FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
		WHERE nspname = 'petrel' AND relkind IN ('r', 'p') AND NOT relispartition AND relname <> 'migrations'
	LOOP EXECUTE format('DELETE FROM %s', r.name); END LOOP;
END $$`

// Drop deletes a database of s, and ends the connections that use it.
func (s *Server) Drop(dsn string) error {
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		return err
	}
	return s.Exec("postgres", fmt.Sprintf("DROP DATABASE %s WITH (FORCE)", c.Database))
}

// At returns a running server with a Template that another process has started. It has only the methods that
// need nothing but a connection: DSN, Exec, Create, Copy and Drop.
func At(port int) *Server {
	return &Server{Port: port, names: fmt.Sprintf("petrel_%x_", rand.Uint32()), template: templateName}
}

// Exec runs statements in a database.
func (s *Server) Exec(database, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c, err := pgx.Connect(ctx, s.DSN(database))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }() // the result is known
	_, err = c.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

// Log returns the log of the server so far.
func (s *Server) Log() string {
	b, _ := os.ReadFile(filepath.Join(s.dir, "log")) // there may be none
	return string(bytes.TrimSpace(b))
}

// Standby makes a server that follows s. Once Standby has returned, each commit of s waits for it.
func (s *Server) Standby() (*Server, error) {
	t, err := s.Follower()
	if err != nil {
		return nil, err
	}
	return t, s.WaitFor(t)
}

// WaitFor makes each commit of s wait for a server that follows it. If that fails, the other server is
// removed.
func (s *Server) WaitFor(t *Server) error {
	for _, sql := range []string{"ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"} {
		if err := s.Exec("postgres", sql); err != nil {
			t.Remove()
			return fmt.Errorf("wait for the standby of port %d: %w", s.Port, err)
		}
	}
	return nil
}

// Follower makes a server that follows s. The commits of s do not wait for it.
func (s *Server) Follower() (*Server, error) {
	t, err := place("")
	if err != nil {
		return nil, err
	}
	t.primary = s
	from := fmt.Sprintf("host=127.0.0.1 port=%d user=petrel application_name=standby", s.Port)
	out, err := t.command("pg_basebackup", "-D", t.data(), "-d", from, "-R", "-X", "stream", "-c", "fast",
		"--no-sync").CombinedOutput()
	if err == nil {
		err = t.Start()
	}
	if err != nil {
		t.Remove()
		return nil, fmt.Errorf("standby of port %d: %w: %s", s.Port, err, out)
	}
	return t, nil
}

// Detach cuts a standby off from its primary, so that it falls behind.
func (s *Server) Detach() error {
	for _, sql := range []string{"ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"} {
		if err := s.Exec("postgres", sql); err != nil {
			return fmt.Errorf("detach port %d: %w", s.Port, err)
		}
	}
	detached := func() bool {
		return s.Exec("postgres", `DO $$ BEGIN ASSERT NOT EXISTS (SELECT FROM pg_stat_wal_receiver); END $$`) == nil
	}
	if !eventually(detached) {
		return fmt.Errorf("detach port %d: it receives still", s.Port)
	}
	return nil
}

// eventually waits until ok returns true, and returns false after limit.
func eventually(ok func() bool) bool {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); !ok(); <-tick.C {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// Rewind makes former, which was the primary of s, a standby of s: it stops former, undoes the commits that s
// lacks, and starts it again.
func (s *Server) Rewind(former *Server) error {
	if err := former.Stop(); err != nil {
		return err
	}
	// without a checkpoint pg_rewind reads the timeline from before the promotion
	if err := s.Exec("postgres", "CHECKPOINT"); err != nil {
		return err
	}
	out, err := former.command("pg_rewind", "-D", former.data(), "--source-server", s.DSN("postgres"), "-R",
		"--no-sync").CombinedOutput()
	if err != nil {
		return fmt.Errorf("pg_rewind of port %d: %w: %s", former.Port, err, out)
	}
	former.primary = s
	return former.Start()
}

// Promote makes a standby a primary without a standby of its own.
func (s *Server) Promote() error {
	for _, sql := range []string{"SELECT pg_promote()", "ALTER SYSTEM SET synchronous_standby_names = ''",
		"SELECT pg_reload_conf()"} {
		if err := s.Exec("postgres", sql); err != nil {
			return fmt.Errorf("promote port %d: %w", s.Port, err)
		}
	}
	return nil
}

// PID returns the id of the first process of the server.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Signal sends a signal to all processes of the server.
func (s *Server) Signal(sig syscall.Signal) error {
	for _, pid := range family(s.PID()) {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

// Pause stops all processes of the server where they are; with a false stop it lets them go on.
func (s *Server) Pause(stop bool) error {
	if stop {
		return process.Freeze(family(s.PID())...)
	}
	return s.Signal(syscall.SIGCONT)
}

// family returns the ids of the processes of a server: the first one, and its children.
func family(first int) []int {
	pids := []int{first}
	entries, _ := os.ReadDir("/proc") // none: the first only
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if f := process.Stat(pid); len(f) > 1 && f[1] == strconv.Itoa(first) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// CPU returns the CPU time of the server's processes.
func (s *Server) CPU() time.Duration { return CPU(s.PID()) }

// CPU returns the CPU time of the server with this first process: of all its processes, and of those that have
// ended and were waited for. 0: there is no /proc.
func CPU(first int) time.Duration {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux
	sum := 0
	for _, pid := range family(first) {
		f := process.Stat(pid)
		if len(f) < 15 {
			continue // has ended
		}
		columns := f[11:13] // utime, stime
		if pid == first {
			columns = f[11:15] // and those of its children that have ended
		}
		for _, c := range columns {
			n, _ := strconv.Atoi(c) // a number
			sum += n
		}
	}
	return time.Duration(sum) * tick
}

// First returns the id of the first process of the server at the other end of a connection; 0: it does not run
// on this machine.
func First(ctx context.Context, c *pgx.Conn) int {
	var backend int
	if c.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend) != nil {
		return 0
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", backend))
	if err != nil || strings.TrimSpace(string(b)) != "postgres" {
		return 0
	}
	f := process.Stat(backend)
	if len(f) < 2 {
		return 0
	}
	first, _ := strconv.Atoi(f[1]) // a number
	return first
}

// Kill ends all processes of the server at once, as kill -9 does. After it Start can start the server again.
func (s *Server) Kill() error {
	if err := s.Pause(true); err != nil { // so that no process ends in order when another one is gone
		return err
	}
	pids := family(s.PID())
	if err := s.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-s.ended
	// their shared memory must be free
	if !eventually(func() bool { return !slices.ContainsFunc(pids, alive) }) {
		return fmt.Errorf("processes of PostgreSQL %v outlive SIGKILL", pids)
	}
	pidFile := filepath.Join(s.data(), "postmaster.pid")
	if b, err := os.ReadFile(pidFile); err == nil {
		freeMemory(string(b))
	}
	_ = os.Remove(pidFile) // it names a process that has ended
	return nil
}

// alive tells whether a process still runs. One that has ended is not alive, even if nobody has waited for it.
func alive(pid int) bool {
	f := process.Stat(pid)
	return f != nil && (len(f) == 0 || f[0][0] != 'Z' && f[0][0] != 'X')
}

// Stop shuts the server down in order and cuts its connections off. If that takes longer than limit, it kills the
// server and returns an error.
func (s *Server) Stop() error {
	select {
	case <-s.ended:
		return nil
	default:
	}
	if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil {
		return err
	}
	select {
	case <-s.ended:
		return nil
	case <-time.After(limit):
		return errors.Join(fmt.Errorf("PostgreSQL on port %d does not end: %s", s.Port, s.Log()), s.Kill())
	}
}

// Remove ends the server, if it runs, and deletes its data.
func (s *Server) Remove() {
	if s.ended != nil {
		select {
		case <-s.ended:
		default:
			_ = s.Kill() // it is given up
		}
	}
	if s.ours != nil {
		_ = s.ours.Close() // nothing was sent
	}
	for range 10 { // the server may still make its last files
		if err := os.RemoveAll(s.dir); err == nil || errors.Is(err, fs.ErrNotExist) {
			return
		}
	}
}
