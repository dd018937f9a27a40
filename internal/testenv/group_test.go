//go:build unix

package testenv

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGroupThatStartsHalfwayIsStopped(t *testing.T) {
	t.Parallel()
	skipShort(t, "Redis")
	path, err := redisServer.find()
	require.NoError(t, err)
	started := make([]*daemon, 3)
	message := failureOf(t, func(tb testing.TB) {
		g := &group{tb: tb, name: "Half"}
		g.add(len(started), func(i int) (d *daemon, err error) {
			k := redisKind{path: path}
			if i == 1 {
				k.args = []string{"--no-such-option", "1"}
			}
			started[i], err = startRedisKind(k, "")
			return started[i], err
		})
	})
	assert.Contains(t, message, "Half: ")
	assert.Contains(t, message, "no-such-option")
	assert.Nil(t, started[1])
	for _, d := range []*daemon{started[0], started[2]} {
		assert.False(t, d.process.running())
		assert.NoDirExists(t, d.dir)
	}
}

// Not parallel, so that no other private server comes or goes meanwhile.
func TestGroupThatCannotBeBuiltIsStopped(t *testing.T) {
	_ = Redis(t)
	before := children(t)
	for what, f := range map[string]func(testing.TB){
		"This instance has cluster support disabled": func(tb testing.TB) { NewCluster(tb, "--cluster-enabled", "no") },
		"no-such-option": func(tb testing.TB) { NewSentinel(tb, "--no-such-option", "1") },
	} {
		assert.Contains(t, failureOf(t, f), what)
	}
	require.Empty(t, failureOf(t, func(tb testing.TB) { // whatever state they are left in
		s, c := NewSentinel(tb), NewCluster(tb)
		s.KillPrimary()
		s.Sentinels()[0].Pause()
		c.Node(2).Pause()
		c.BeginMove(0, 1)
	}))
	assert.ElementsMatch(t, before, children(t))
}

// children are the processes that this binary has started and not ended. Theirs may come and go.
func children(tb testing.TB) (pids []int) {
	tb.Helper()
	all, err := processes()
	require.NoError(tb, err)
	for _, s := range all {
		if s.parent == os.Getpid() && !s.dead {
			pids = append(pids, s.pid)
		}
	}
	return pids
}

func TestGroupThatWaitsInVainShowsTheLogs(t *testing.T) {
	t.Parallel()
	r := NewRedis(t)
	message := failureOf(t, func(tb testing.TB) {
		g := &group{tb: tb, name: "Vain", members: []*Server{r.Server}}
		g.await("a miracle", silence, func() error { return errors.New("it does not come") })
	})
	assert.Contains(t, message, "Vain: a miracle: not within 100ms: it does not come")
	assert.Contains(t, message, "at "+r.Addr()+" (still runs); its log ends:")
	assert.Contains(t, message, "Ready to accept connections")
}
