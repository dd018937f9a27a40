//go:build unix

package testenv

import (
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	patience = 10 * time.Second       // for what must happen
	silence  = 100 * time.Millisecond // for what must not
)

// target is the far side of a proxy, played by the test.
type target struct {
	tb       testing.TB
	listener *net.TCPListener
}

func newTarget(tb testing.TB) *target {
	tb.Helper()
	return newTargetAt(tb, "127.0.0.1:0")
}

func newTargetAt(tb testing.TB, addr string) *target {
	tb.Helper()
	l, err := net.Listen("tcp4", addr)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = l.Close() })
	return &target{tb: tb, listener: l.(*net.TCPListener)}
}

func (s *target) addr() string { return s.listener.Addr().String() }

func (s *target) accept() *peer {
	s.tb.Helper()
	require.NoError(s.tb, s.listener.SetDeadline(time.Now().Add(patience)))
	conn, err := s.listener.Accept()
	require.NoError(s.tb, err)
	return newPeer(s.tb, conn)
}

// nobody checks that no connection comes.
func (s *target) nobody() {
	s.tb.Helper()
	require.NoError(s.tb, s.listener.SetDeadline(time.Now().Add(silence)))
	_, err := s.listener.Accept()
	require.ErrorIs(s.tb, err, os.ErrDeadlineExceeded)
}

// peer is one end of a connection.
type peer struct {
	tb   testing.TB
	conn *net.TCPConn
}

func newPeer(tb testing.TB, conn net.Conn) *peer {
	tb.Cleanup(func() { _ = conn.Close() })
	return &peer{tb: tb, conn: conn.(*net.TCPConn)}
}

func dial(tb testing.TB, addr string) *peer {
	tb.Helper()
	conn, err := net.DialTimeout("tcp", addr, patience)
	require.NoError(tb, err)
	return newPeer(tb, conn)
}

func (p *peer) says(text string) {
	p.tb.Helper()
	_, err := p.conn.Write([]byte(text))
	require.NoError(p.tb, err)
}

func (p *peer) hears(text string) {
	p.tb.Helper()
	require.NoError(p.tb, p.conn.SetReadDeadline(time.Now().Add(patience)))
	buf := make([]byte, len(text))
	n, err := io.ReadFull(p.conn, buf)
	require.NoError(p.tb, err, "after %q", buf[:n])
	require.Equal(p.tb, text, string(buf))
}

// hearsNothing checks that nothing comes, not even an end.
func (p *peer) hearsNothing() {
	p.tb.Helper()
	require.NoError(p.tb, p.conn.SetReadDeadline(time.Now().Add(silence)))
	n, err := p.conn.Read(make([]byte, 1))
	require.Zero(p.tb, n)
	require.ErrorIs(p.tb, err, os.ErrDeadlineExceeded)
}

// hearsEnd checks that the connection ends, in the given way if one is given, and that nothing comes
// before.
func (p *peer) hearsEnd(way ...error) {
	p.tb.Helper()
	require.NoError(p.tb, p.conn.SetReadDeadline(time.Now().Add(patience)))
	n, err := p.conn.Read(make([]byte, 1))
	require.Zero(p.tb, n)
	require.Error(p.tb, err)
	require.NotErrorIs(p.tb, err, os.ErrDeadlineExceeded)
	for _, w := range way {
		require.ErrorIs(p.tb, err, w)
	}
}

// through makes a connection through the proxy and returns both ends, tried once each way.
func through(p *Proxy, s *target) (client, server *peer) {
	s.tb.Helper()
	client = dial(s.tb, p.Addr())
	server = s.accept()
	talk(client, server)
	return client, server
}

// refused checks that a new connection is reset at once.
func refused(tb testing.TB, p *Proxy) {
	tb.Helper()
	conn, err := net.DialTimeout("tcp", p.Addr(), patience)
	if err != nil { // it came even before connect returned
		require.ErrorIs(tb, err, syscall.ECONNRESET)
		return
	}
	newPeer(tb, conn).hearsEnd(syscall.ECONNRESET)
}

func talk(client, server *peer) {
	client.tb.Helper()
	client.says("ping")
	server.hears("ping")
	server.says("pong")
	client.hears("pong")
}

func TestProxyRelaysUntilBothSidesHaveClosed(t *testing.T) {
	t.Parallel()
	s := newTarget(t)
	p := NewProxy(t, s.addr())
	client, server := through(p, s)

	require.NoError(t, client.conn.CloseWrite())
	server.hearsEnd(io.EOF)
	server.says("late")
	client.hears("late")
	require.NoError(t, server.conn.Close())
	client.hearsEnd(io.EOF)
}

func TestProxyPassesOnAReset(t *testing.T) {
	t.Parallel()
	s := newTarget(t)
	p := NewProxy(t, s.addr())
	client, server := through(p, s)
	reset(server.conn)
	client.hearsEnd(syscall.ECONNRESET)
}

func TestProxyCarriesALot(t *testing.T) {
	t.Parallel()
	s := newTarget(t)
	p := NewProxy(t, s.addr())
	client, server := through(p, s)
	sent := make([]byte, 8<<20)
	for i := range sent {
		sent[i] = byte(i * 31 >> 3)
	}
	echoed := make(chan error, 1)
	go func() { _, err := io.Copy(server.conn, server.conn); echoed <- err }()
	written := make(chan error, 1)
	go func() {
		_, err := client.conn.Write(sent)
		written <- errors.Join(err, client.conn.CloseWrite())
	}()
	got := make([]byte, len(sent))
	require.NoError(t, client.conn.SetReadDeadline(time.Now().Add(patience)))
	_, err := io.ReadFull(client.conn, got)
	require.NoError(t, err)
	require.NoError(t, <-written)
	require.NoError(t, <-echoed)
	assert.Equal(t, sent, got)
}

func TestProxyURL(t *testing.T) {
	t.Parallel()
	s := newTarget(t)
	p := NewProxy(t, s.addr())
	assert.Equal(t, "redis://user:pw@"+p.Addr()+"/3?a=b", p.URL("redis://user:pw@example.org:6379/3?a=b"))
	assert.Equal(t, "postgres://"+p.Addr()+"/db?options=-csearch_path%3Dt1", p.URL("postgres://db.example.org/db?options=-csearch_path%3Dt1"))
	assert.Contains(t, failureOf(t, func(tb testing.TB) {
		NewProxy(tb, s.addr()).URL("not a url")
	}), "not a URL with a host")
}

func TestProxyTargetMustBeHostAndPort(t *testing.T) {
	t.Parallel()
	assert.Contains(t, failureOf(t, func(tb testing.TB) { NewProxy(tb, "redis://x") }), `"redis://x": want host:port`)
}

func TestProxyDelays(t *testing.T) {
	t.Parallel()
	const d = 400 * time.Millisecond
	for _, c := range []struct {
		name string
		set  func(*Proxy, time.Duration)
		ends func(client, server *peer) (slow, quick *peer)
	}{
		{"requests", (*Proxy).DelayRequests, func(client, server *peer) (*peer, *peer) { return client, server }},
		{"replies", (*Proxy).DelayReplies, func(client, server *peer) (*peer, *peer) { return server, client }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newTarget(t)
			p := NewProxy(t, s.addr())
			slow, quick := c.ends(through(p, s))
			c.set(p, d)

			start := time.Now()
			slow.says("1")
			quick.says("2")
			slow.hears("2")
			assert.Less(t, time.Since(start), d, "the other direction")
			slow.says("3")
			quick.hears("13")
			assert.GreaterOrEqual(t, time.Since(start), d)
			assert.Less(t, time.Since(start), 2*d, "it delays, it does not limit throughput")

			slow.says("4")
			c.set(p, 0)
			slow.says("5")
			quick.hears("45") // in order, though 5 is not delayed
			c.set(p, time.Hour)
			slow.says("6")
			quick.hearsNothing() // and the end of the test does not wait for it
		})
	}
}

func TestProxyDropsRequests(t *testing.T) {
	t.Parallel()
	s := newTarget(t)
	p := NewProxy(t, s.addr())
	client, server := through(p, s)

	p.DropRequests(true)
	client.says("lost")
	server.hearsNothing()
	server.says("news")
	client.hears("news")
	p.DropRequests(false)
	client.says("kept")
	server.hears("kept")

	p.DropRequests(true)
	require.NoError(t, client.conn.Close())
	server.hearsNothing() // not even the end
	p.DropRequests(false)
	server.hearsEnd(io.EOF)
}

func TestProxyDropsReplies(t *testing.T) {
	t.Parallel()
	s := newTarget(t)
	p := NewProxy(t, s.addr())
	client, server := through(p, s)

	p.DropReplies(true)
	client.says("please")
	server.hears("please")
	server.says("lost")
	client.hearsNothing()
	p.DropReplies(false)
	server.says("kept")
	client.hears("kept")

	p.DropReplies(true)
	reset(server.conn)
	client.hearsNothing()
	p.DropReplies(false)
	client.hearsEnd(syscall.ECONNRESET)
}

func TestProxyBlackhole(t *testing.T) {
	t.Parallel()
	s := newTarget(t)
	p := NewProxy(t, s.addr())
	client, server := through(p, s)

	p.Blackhole(true)
	client.says("lost")
	server.says("lost")
	server.hearsNothing()
	client.hearsNothing()
	during := dial(t, p.Addr())
	during.says("hello?")
	s.nobody()
	during.hearsNothing()

	p.Blackhole(false)
	talk(client, server)
	through(p, s)
	during.says("and now?")
	during.hearsNothing()
	p.Cut()
	during.hearsEnd()
}

func TestProxyCut(t *testing.T) {
	t.Parallel()
	s := newTarget(t)
	p := NewProxy(t, s.addr())
	client, server := through(p, s)
	waiting, _ := through(p, s)
	p.DelayRequests(time.Hour)
	client.says("under way")

	p.Cut()
	client.hearsEnd(syscall.ECONNRESET)
	server.hearsEnd(syscall.ECONNRESET)
	waiting.hearsEnd(syscall.ECONNRESET)
	p.DelayRequests(0)
	through(p, s)
}

// A client's connect may succeed before the proxy has looked at it.
func TestProxyCutsWhatHasOnlyJustConnected(t *testing.T) {
	t.Parallel()
	s := newTarget(t)
	p := NewProxy(t, s.addr())
	for range 100 {
		client := dial(t, p.Addr())
		p.Cut()
		client.hearsEnd()
	}
}

func TestProxyRefusesNewConnectionsOnly(t *testing.T) {
	t.Parallel()
	s := newTarget(t)
	p := NewProxy(t, s.addr())
	for range 20 {
		client := dial(t, p.Addr())
		p.Refuse(true)
		refused(t, p)
		server := s.accept()
		talk(client, server)
		p.Refuse(false)
		through(p, s)
	}
}

func TestProxyTargetComesAndGoes(t *testing.T) {
	t.Parallel()
	port, err := freePort() // one that nobody gets by chance while it is free
	require.NoError(t, err)
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	p := NewProxy(t, addr)
	refused(t, p)
	s := newTargetAt(t, addr)
	client, _ := through(p, s)

	require.NoError(t, s.listener.Close())
	refused(t, p)
	p.Cut()
	client.hearsEnd()
	through(p, newTargetAt(t, addr))
}
