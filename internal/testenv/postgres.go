//go:build unix

package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// PostgresServer is a PostgreSQL server, or the one that RINGFENCE_TEST_POSTGRES names.
type PostgresServer struct{ *Server }

// Postgres returns the server that all tests of this binary share: started on first use, stopped by
// [Main]. Keep to [PostgresServer.Schema] in it. With RINGFENCE_TEST_POSTGRES=postgres://... that
// server is used instead. Under -short the test is skipped.
func Postgres(tb testing.TB) *PostgresServer {
	tb.Helper()
	skipShort(tb, "PostgreSQL")
	if external := os.Getenv("RINGFENCE_TEST_POSTGRES"); external != "" {
		return &PostgresServer{externalServer(tb, "Postgres", "RINGFENCE_TEST_POSTGRES", external, "5432")}
	}
	d, err := current.postgres.get(func() (*daemon, error) { return startPostgres(nil) })
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	return newPostgresServer(tb, d, false)
}

// NewPostgres starts a server for this test alone, to be paused, killed and restarted; the test's end
// stops it. Each conf is a setting, "deadlock_timeout=100ms". Commits survive Kill, but fsync is off:
// they would not survive a power cut. Under -short the test is skipped.
func NewPostgres(tb testing.TB, conf ...string) *PostgresServer {
	tb.Helper()
	skipShort(tb, "PostgreSQL")
	d, err := startPostgres(conf)
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	discardAtEnd(tb, d)
	return newPostgresServer(tb, d, true)
}

func newPostgresServer(tb testing.TB, d *daemon, private bool) *PostgresServer {
	return &PostgresServer{&Server{
		tb: tb, name: "Postgres", url: "postgres://postgres@" + d.addr() + "/postgres?sslmode=disable", addr: d.addr(),
		daemon: d, private: private,
	}}
}

func discardAtEnd(tb testing.TB, d *daemon) {
	tb.Cleanup(func() {
		if err := d.discard(); err != nil {
			tb.Errorf("testenv: stop %s: %v", d.kind.name(), err)
		}
	})
}

func startPostgres(conf []string) (*daemon, error) {
	path, err := postgresServer.find()
	if err != nil {
		return nil, err
	}
	// Its companions are beside the program itself, not beside a link to it.
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, err
	}
	account, err := postgresAccount()
	if err != nil {
		return nil, err
	}
	k := postgresKind{bin: filepath.Dir(path), account: account, conf: conf}
	template, err := current.template.get(k)
	if err != nil {
		return nil, err
	}
	dir, reaper, err := current.newDir("postgres")
	if err != nil {
		return nil, err
	}
	if err := k.own(dir); err != nil {
		return nil, err
	}
	// A copy takes a tenth of initdb's time.
	if err := k.run(dir, reaper, "/bin/cp", "-Rp", template, filepath.Join(dir, "data")); err != nil {
		return nil, err
	}
	return startDaemon(k, dir, reaper)
}

// template is a data folder fresh from initdb, from which every server of the binary is copied.
type template struct {
	mu   sync.Mutex
	path string
	err  error
}

func (t *template) get(k postgresKind) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.path != "" || t.err != nil {
		return t.path, t.err
	}
	t.path, t.err = k.initdb()
	return t.path, t.err
}

func (t *template) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.path, t.err = "", nil
}

type postgresKind struct {
	bin     string
	account *syscall.Credential // nil: our own
	conf    []string
}

func (postgresKind) name() string           { return "PostgreSQL" }
func (postgresKind) polite() syscall.Signal { return syscall.SIGINT }
func (postgresKind) freePort() (int, error) { return freePort() }

func (k postgresKind) initdb() (string, error) {
	dir, reaper, err := current.newDir("initdb")
	if err != nil {
		return "", err
	}
	if err := k.own(dir); err != nil {
		return "", err
	}
	data := filepath.Join(dir, "data")
	err = k.run(dir, reaper, filepath.Join(k.bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "-N")
	return data, err
}

func (k postgresKind) command(dir string, port int) *exec.Cmd {
	args := []string{"-D", filepath.Join(dir, "data"), "-p", strconv.Itoa(port)}
	for _, setting := range append([]string{
		"listen_addresses=127.0.0.1", "unix_socket_directories=" + dir, "max_connections=200",
		"fsync=off", "full_page_writes=off",
	}, k.conf...) {
		args = append(args, "-c", setting)
	}
	return k.as(exec.Command(filepath.Join(k.bin, "postgres"), args...), dir)
}

// ready reads the server's own lock file: the number of its process, and what it is doing.
func (postgresKind) ready(dir string, _, pid int) error {
	lines, err := readLockFile(dir)
	if err != nil {
		return err
	}
	if len(lines) < 8 || lines[0] != strconv.Itoa(pid) || strings.TrimSpace(lines[7]) != "ready" {
		return errNotYet
	}
	return nil
}

// clean removes the shared memory that a killed server leaves in the system until it starts again.
func (postgresKind) clean(dir string) {
	if id, err := sharedMemory(dir); err == nil { // else it has ended in order
		_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	}
}

// sharedMemory is the segment that the server noted in its lock file, as "key id".
func sharedMemory(dir string) (id int, err error) {
	lines, err := readLockFile(dir)
	if err != nil {
		return 0, err
	}
	var key int
	_, err = fmt.Sscan(strings.Join(lines[min(6, len(lines)):], " "), &key, &id)
	return id, err
}

func readLockFile(dir string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	return strings.Split(string(text), "\n"), err
}

// run runs a program as the server's user and waits for it.
func (k postgresKind) run(dir string, r *reaper, path string, args ...string) error {
	p, err := startProcess(k.as(exec.Command(path, args...), dir), filepath.Join(dir, "log"), r)
	if err != nil {
		return err
	}
	if !p.wait(startLimit) {
		return p.failure(fmt.Sprintf("took more than %v", startLimit))
	}
	if !p.cmd.ProcessState.Success() {
		return p.failure("failed")
	}
	return nil
}

func (k postgresKind) as(cmd *exec.Cmd, dir string) *exec.Cmd {
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: k.account}
	return cmd
}

func (k postgresKind) own(dir string) error {
	if k.account == nil {
		return nil
	}
	return os.Chown(dir, int(k.account.Uid), int(k.account.Gid))
}

// postgresAccount is whom the server runs as: it refuses to run as root.
func postgresAccount() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL refuses to run as root, and there is no user postgres to run it as: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user postgres: %w", err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user postgres: %w", err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
