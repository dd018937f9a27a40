//go:build unix

package testenv

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func requireLost(tb testing.TB, lost <-chan struct{}) {
	tb.Helper()
	select {
	case <-lost:
	case <-time.After(patience):
		require.Fail(tb, "no reply was lost")
	}
}

func requireNotLost(tb testing.TB, lost <-chan struct{}) {
	tb.Helper()
	select {
	case <-lost:
		require.Fail(tb, "the channel says that a reply was lost")
	default:
	}
}

func TestLoseReply(t *testing.T) {
	t.Parallel()
	s := newTarget(t)
	p := NewProxy(t, s.addr())
	client, server := through(p, s)
	other, otherServer := through(p, s)

	lost := p.LoseReply("COMMIT")
	talk(client, server) // not the one
	client.says("COMMIT;")
	server.hears("COMMIT;")
	requireNotLost(t, lost)
	client.hearsNothing() // not cut before the server has answered
	server.says("done")
	client.hearsEnd()
	server.hearsEnd()
	requireLost(t, lost)

	talk(other, otherServer)
	other.says("COMMIT;")
	otherServer.hears("COMMIT;")
	otherServer.says("done")
	other.hears("done")
}

func TestLoseReplyOfARequestInPieces(t *testing.T) {
	t.Parallel()
	s := newTarget(t)
	p := NewProxy(t, s.addr())
	client, server := through(p, s)

	lost := p.LoseReply("COMMIT")
	for _, part := range []string{"x COM", "M", "IT rest", " of it"} {
		client.says(part)
		server.hears(part)
	}
	server.says("do")
	server.says("ne")
	client.hearsEnd()
	requireLost(t, lost)
}

func TestLoseReplyDoesNotMatchAcrossConnections(t *testing.T) {
	t.Parallel()
	s := newTarget(t)
	p := NewProxy(t, s.addr())
	a, aServer := through(p, s)
	b, bServer := through(p, s)

	lost := p.LoseReply("COMMIT")
	a.says("COM")
	aServer.hears("COM")
	b.says("MIT")
	bServer.hears("MIT")
	talk(b, bServer)
	requireNotLost(t, lost)
	a.says("MIT")
	aServer.hears("MIT")
	aServer.says("done")
	a.hearsEnd()
	requireLost(t, lost)
	talk(b, bServer)
}

func TestLoseReplyOfAnyRequest(t *testing.T) {
	t.Parallel()
	s := newTarget(t)
	p := NewProxy(t, s.addr())
	client, server := through(p, s)
	lost := p.LoseReply("")
	client.says("?")
	server.hears("?")
	server.says("!")
	client.hearsEnd()
	requireLost(t, lost)
	through(p, s)
}

func TestLoseReplyDeliversEarlierReplies(t *testing.T) {
	t.Parallel()
	s := newTarget(t)
	p := NewProxy(t, s.addr())
	client, server := through(p, s)
	p.DelayReplies(time.Second)
	client.says("first")
	server.hears("first")
	server.says("one")
	client.hearsNothing() // the proxy has it by now
	lost := p.LoseReply("second")
	client.says("second")
	server.hears("second")
	server.says("two")
	client.hears("one")
	client.hearsEnd()
	requireLost(t, lost)
}

// Requests after the one that matched are not carried out behind the client's back.
func TestLoseReplyForwardsNoLaterRequest(t *testing.T) {
	t.Parallel()
	s := newTarget(t)
	p := NewProxy(t, s.addr())
	client, server := through(p, s)
	p.DelayRequests(silence)
	lost := p.LoseReply("first")
	client.says("first")
	server.hears("first")
	client.says("second") // arrives while the reply below is under way
	bit := time.NewTicker(replyGap / 10)
	defer bit.Stop()
	for start := time.Now(); time.Since(start) < 2*silence; <-bit.C {
		if _, err := server.conn.Write([]byte("o")); err != nil {
			break // we paused long enough to end the reply
		}
	}
	server.hearsEnd()
	requireLost(t, lost)
}

func TestLoseReplyTriesAgainWhenNoReplyComes(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(p *Proxy, server *peer){
		"target resets": func(_ *Proxy, server *peer) { reset(server.conn) },
		"target closes": func(_ *Proxy, server *peer) { _ = server.conn.Close() },
		"proxy cuts":    func(p *Proxy, _ *peer) { p.Cut() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTarget(t)
			p := NewProxy(t, s.addr())
			lost := p.LoseReply("SET")
			for range 20 {
				client, server := through(p, s)
				client.says("SET")
				server.hears("SET")
				end(p, server)
				client.hearsEnd()
				requireNotLost(t, lost)
			}
			client, server := through(p, s)
			client.says("SET")
			server.hears("SET")
			server.says("OK")
			client.hearsEnd()
			requireLost(t, lost)
		})
	}
}

func TestLoseReplyWhenTheTargetClosesAfterItsReply(t *testing.T) {
	t.Parallel()
	s := newTarget(t)
	p := NewProxy(t, s.addr())
	client, server := through(p, s)
	lost := p.LoseReply("QUIT")
	client.says("QUIT")
	server.hears("QUIT")
	server.says("OK")
	require.NoError(t, server.conn.Close())
	client.hearsEnd()
	requireLost(t, lost)
}

func TestLoseReplyLosesExactlyAsManyAsAsked(t *testing.T) {
	t.Parallel()
	const asked, clients = 3, 16
	s := newTarget(t)
	p := NewProxy(t, s.addr())
	var losses []<-chan struct{}
	var pairs [clients][2]*peer
	for i := range pairs {
		pairs[i][0], pairs[i][1] = through(p, s)
	}
	for range asked {
		losses = append(losses, p.LoseReply("SET"))
	}
	var wg sync.WaitGroup
	heard := make(chan bool, clients)
	for _, pair := range pairs {
		wg.Go(func() {
			client, server := pair[0].conn, pair[1].conn
			deadline := time.Now().Add(patience)
			_, _ = client.Write([]byte("SET"))
			_ = server.SetReadDeadline(deadline)
			if n, _ := server.Read(make([]byte, 8)); n == 3 {
				_, _ = server.Write([]byte("OK"))
			}
			_ = client.SetReadDeadline(deadline)
			n, _ := client.Read(make([]byte, 8))
			heard <- n == 2
		})
	}
	wg.Wait()
	close(heard)
	missing := 0
	for ok := range heard {
		if !ok {
			missing++
		}
	}
	assert.Equal(t, asked, missing)
	for _, lost := range losses {
		requireLost(t, lost)
	}
}
