package redislock_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/internal/testenv"
	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/redislock"
)

// messages subscribes to a listener's channel as any program could.
func (s *store) messages(listener uuid.UUID) func() string {
	s.Helper()
	sub := s.rdb.Subscribe(s.Context(), "ringfence:"+listener.String())
	s.Cleanup(func() { _ = sub.Close() })
	_, err := sub.Receive(s.Context())
	require.NoError(s, err)
	channel := sub.Channel()
	return func() string {
		s.Helper()
		select {
		case m := <-channel:
			return m.Payload
		case <-time.After(10 * time.Second):
			require.Fail(s, "nothing was told")
			return ""
		}
	}
}

func TestL11_TheNextStandBy(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	c := s.acquire()
	ws := s.waiters(4)
	var told []func() string
	for _, w := range ws {
		told = append(told, s.messages(w.listener))
	}
	s.release(c)
	assert.Equal(t, ws[0].holder.String()+" 0", told[0]())
	assert.Equal(t, ws[1].holder.String()+" 250", told[1]())
	assert.Equal(t, ws[2].holder.String()+" 500", told[2]())
	s.release(ws[0].granted(0))
	assert.Equal(t, ws[1].holder.String()+" 0", told[1]())
	assert.Equal(t, ws[2].holder.String()+" 250", told[2]())
	assert.Equal(t, ws[3].holder.String()+" 500", told[3](), "it was not told before")
}

func TestL11_OneMessageToOneListener(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	c := s.acquire()
	ws := []*waiter{s.waiter(), s.waiter(), s.waiter()}
	for _, w := range ws {
		w.listener = ws[0].listener
		w.queued(0)
	}
	told := s.messages(ws[0].listener)
	s.release(c)
	assert.Equal(t, ws[0].holder.String()+" 0 "+ws[1].holder.String()+" 250 "+ws[2].holder.String()+" 500", told())
}

// listening is a call of Listen under way.
type listening struct {
	ready chan struct{}
	turns chan driver.Turn
	ended chan error
	end   context.CancelFunc
}

func listen(t *testing.T, d *redislock.Driver, listener uuid.UUID) *listening {
	ctx, cancel := context.WithCancel(t.Context())
	l := &listening{make(chan struct{}, 1), make(chan driver.Turn, 10), make(chan error, 1), cancel}
	go func() {
		l.ended <- d.Listen(ctx, listener, func() { l.ready <- struct{}{} }, func(turn driver.Turn) { l.turns <- turn })
	}()
	t.Cleanup(cancel)
	return l
}

func TestListen(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	w, other := s.waiter(), s.waiter()
	other.listener = w.listener
	l := listen(t, s.Driver, w.listener)
	<-l.ready
	for _, nonsense := range []string{"", "x", w.holder.String(), w.holder.String() + " ", w.holder.String() + " -1", w.holder.String() + " x", "x 0", " "} {
		require.NoError(t, s.rdb.Publish(t.Context(), "ringfence:"+w.listener.String(), nonsense).Err())
	}
	c := s.acquire()
	w.queued(0)
	other.queued(0)
	s.release(c)
	assert.Equal(t, driver.Turn{Holder: w.holder}, <-l.turns)
	assert.Equal(t, driver.Turn{Holder: other.holder, After: driver.TurnFor}, <-l.turns)
	l.end()
	require.ErrorIs(t, <-l.ended, context.Canceled)
}

func TestListen_EndsWithItsConnection(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	for _, protocol := range []string{"2", "3"} {
		for name, fault := range map[string]func(*testenv.Proxy){
			"cut":    (*testenv.Proxy).Cut,
			"silent": func(p *testenv.Proxy) { p.Blackhole(true) },
		} {
			t.Run(name+" "+protocol, func(t *testing.T) {
				t.Parallel()
				proxy := testenv.NewProxy(t, server.Addr())
				d := redislock.New(client(t, proxy.URL(server.URL())+"?protocol="+protocol))
				l := listen(t, d, uuid.New())
				<-l.ready
				if name == "silent" { // an idle subscription is asked, and lives on
					select {
					case err := <-l.ended:
						require.NoError(t, err)
					case <-time.After(5 * time.Second):
					}
				}
				fault(proxy)
				start := time.Now()
				require.Error(t, <-l.ended)
				assert.Less(t, time.Since(start), 5*time.Second)
			})
		}
	}
}
