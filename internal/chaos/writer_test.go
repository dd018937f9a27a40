//go:build unix

package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/pgguard"
	"github.com/ringfence/ringfence/internal/testenv"
	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/middleware"
)

// writerVariable tells the test binary to be a writer, and of which world.
const writerVariable = "RINGFENCE_CHAOS_WRITER"

type writerTask struct{ Redis, Psql, HTTP, Resource, How string }

// answer is what a writer says at the end.
type answer struct{ Write, Lease string }

func TestMain(m *testing.M) {
	if text := os.Getenv(writerVariable); text != "" {
		runWriter(text)
		return
	}
	testenv.Main(m)
}

// runWriter acquires, says so, waits to be told and writes. It writes on a context that does not end
// with the lease, as a request does that was already on its way when the process was stopped.
func runWriter(text string) {
	var task writerTask
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		fail(err)
	}
	ctx := context.Background()
	w := &world{redis: task.Redis, psql: task.Psql, http: task.HTTP, resource: task.Resource}
	w.connect(ctx, failing{}, func(func()) {})
	lease, err := w.locker.Acquire(ctx, w.resource)
	if err != nil {
		fail(err)
	}
	if err := lease.Err(); err != nil {
		fail(err)
	}
	fmt.Println(lease.Token())
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		fail(err)
	}
	said := answer{Write: "written", Lease: "held"}
	err = w.write(ctx, task.How, lease.Claim(), oldHolder)
	switch {
	case errors.Is(err, fence.ErrStale):
		said.Write = "stale"
	case err != nil:
		said.Write = err.Error()
	}
	if errors.Is(lease.Err(), lock.ErrLost) {
		said.Lease = "lost"
	}
	_ = json.NewEncoder(os.Stdout).Encode(said)
}

// write writes the value in the way of the world called how.
func (w *world) write(ctx context.Context, how string, c fence.Claim, value string) error {
	update := func(tx interface {
		Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
	},
	) error {
		_, err := tx.Exec(ctx, `UPDATE rows SET value = $1 WHERE id = '7'`, value)
		return err
	}
	switch how {
	case "table":
		return w.rows.Update(ctx, c, "7", pgguard.Set{"value": value})
	case "intx":
		return w.guard.InTx(ctx, c, func(tx pgx.Tx) error { return update(tx) })
	case "http":
		return w.put(fence.NewContext(ctx, c), value)
	default:
		return update(w.pool)
	}
}

// put sends the value to the storage service, with the claim in ctx.
func (w *world) put(ctx context.Context, value string) error {
	service, err := url.Parse(w.http)
	if err != nil {
		return err
	}
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	client := &http.Client{Transport: middleware.NewTransport(base, middleware.WithHosts(service.Host))}
	target := service.JoinPath("rows", "7")
	target.RawQuery = url.Values{"value": {value}}.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, target.String(), nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode == http.StatusPreconditionFailed:
		var problem struct{ Type string }
		if err := json.Unmarshal(body, &problem); err != nil || problem.Type != "fencing-token-stale" {
			return fmt.Errorf("412 with %s", body)
		}
		return fence.ErrStale
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s", resp.Status, body)
	}
	return nil
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "writer:", err)
	os.Exit(1)
}

// failing ends the writer at a failed check.
type failing struct{}

func (failing) Errorf(format string, args ...any) { fail(fmt.Errorf(format, args...)) }
func (failing) FailNow()                          { os.Exit(1) }

// writer is a writer's process, as the test sees it.
type writer struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
}

func startWriter(t *testing.T, w *world, how string) *writer {
	t.Helper()
	task, err := json.Marshal(writerTask{Redis: w.redis, Psql: w.psql, HTTP: w.http, Resource: w.resource, How: how})
	require.NoError(t, err)
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), writerVariable+"="+string(task))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &writer{cmd: cmd, in: in, lines: make(chan string, 4)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
	return p
}

// line returns the next line that the writer prints.
func (p *writer) line(t *testing.T) string {
	t.Helper()
	select {
	case line, ok := <-p.lines:
		require.True(t, ok, "the writer has ended")
		return line
	case <-time.After(20 * time.Second):
		require.Fail(t, "the writer says nothing")
		return ""
	}
}

func (p *writer) acquired(t *testing.T) fence.Token {
	t.Helper()
	token, err := fence.ParseToken(p.line(t))
	require.NoError(t, err)
	return token
}

func (p *writer) answer(t *testing.T) answer {
	t.Helper()
	var a answer
	require.NoError(t, json.Unmarshal([]byte(p.line(t)), &a))
	return a
}

func (p *writer) tellToWrite(t *testing.T) {
	t.Helper()
	_, err := io.WriteString(p.in, "write\n")
	require.NoError(t, err)
}

func (p *writer) stop(t *testing.T)   { require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP)) }
func (p *writer) resume(t *testing.T) { require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT)) }
