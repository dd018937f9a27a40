package redislock_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/testenv"
	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/locktest"
	"github.com/ringfence/ringfence/lock/redislock"
)

const nodes = 3

func clusterClient(t *testing.T, c *testenv.Cluster) *redis.ClusterClient {
	t.Helper()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	require.NoError(t, rdb.Ping(t.Context()).Err())
	return rdb
}

// onNode returns n resources whose keys are on the node.
func onNode(c *testenv.Cluster, node, n int) []string {
	var names []string
	for i := 0; len(names) < n; i++ {
		name := "n" + strconv.Itoa(node) + "/" + strconv.Itoa(i)
		if c.Owner(c.SlotOf(leaseKey(name))) == node {
			names = append(names, name)
		}
	}
	return names
}

// claims acquires the resources, for a minute.
func claims(t *testing.T, d *redislock.Driver, resources ...string) []fence.Claim {
	t.Helper()
	cs := make([]fence.Claim, len(resources))
	for i, resource := range resources {
		holder := uuid.New()
		g, err := d.Acquire(t.Context(), driver.Request{Resource: resource, Holder: holder, TTL: time.Minute})
		require.NoError(t, err)
		cs[i] = fence.Claim{Resource: resource, Token: g.Token, Holder: holder}
	}
	return cs
}

func TestCluster_Conformance(t *testing.T) {
	t.Parallel()
	rdb := clusterClient(t, testenv.NewCluster(t))
	locktest.Run(t, func(*testing.T) driver.Driver { return redislock.New(rdb) })
}

func TestCluster_C10_KeysOfANameShareASlot(t *testing.T) {
	t.Parallel()
	c := testenv.NewCluster(t)
	rdb := clusterClient(t, c)
	d := redislock.New(rdb)
	used := map[int]bool{}
	for _, name := range []string{"}x", "{}", "a{b}c", "A}B{C", "%7B", "{", "}", "x", "{lock:x}:fence", " ", "ü"} {
		cs := claims(t, d, name)
		listener, holder := uuid.New(), uuid.New()
		_, err := d.Wait(t.Context(), driver.Request{Resource: name, Holder: holder, TTL: time.Minute}, driver.Place{Listener: listener})
		require.ErrorAs(t, err, new(*driver.Queued), name)
		_, err = d.Wait(t.Context(), driver.Request{Resource: name, Holder: holder, TTL: time.Minute}, driver.Place{Listener: listener, Ticket: 1})
		require.ErrorAs(t, err, new(*driver.Queued), name)
		require.NoError(t, d.Renew(t.Context(), []driver.Renewal{{Claim: cs[0], TTL: time.Minute}})[0], name)
		info, err := d.Inspect(t.Context(), name)
		require.NoError(t, err)
		assert.Equal(t, 1, info.Waiters)
		require.NoError(t, d.Raise(t.Context(), name, 5))
		require.NoError(t, d.Release(t.Context(), cs[0], 0))
		g, err := d.Wait(t.Context(), driver.Request{Resource: name, Holder: holder, TTL: time.Minute}, driver.Place{Listener: listener})
		require.NoError(t, err, name)
		assert.Greater(t, g.Token, cs[0].Token)
		require.NoError(t, d.Leave(t.Context(), name, holder, listener))
	}
	var (
		mu   sync.Mutex
		keys []string
	)
	require.NoError(t, rdb.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		found, err := node.Keys(ctx, "*").Result()
		mu.Lock()
		defer mu.Unlock()
		for _, key := range found {
			used[c.SlotOf(key)] = true
		}
		keys = append(keys, found...)
		return err
	}))
	assert.NotEmpty(t, keys)
	assert.Len(t, used, 11, "one slot for each name")
}

// TestCluster_OneSlowNode has a node that doesn't answer. The renewals of the others are not its hostages.
func TestCluster_L13_OneSilentNode(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*testenv.RedisServer){
		"paused": func(n *testenv.RedisServer) { n.Pause() },
		"killed": func(n *testenv.RedisServer) { n.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := testenv.NewCluster(t, "--cluster-require-full-coverage", "no")
			d := redislock.New(clusterClient(t, c))
			const bad = 1
			var resources []string
			for node := range nodes {
				resources = append(resources, onNode(c, node, 5)...)
			}
			cs := claims(t, d, resources...)
			rs := make([]driver.Renewal, len(cs))
			for i, claim := range cs {
				rs[i] = driver.Renewal{Claim: claim, TTL: 2 * time.Minute}
			}
			require.Equal(t, make([]error, len(rs)), d.Renew(t.Context(), rs)) // loads the script
			fault(c.Node(bad))
			rs = append(rs, driver.Renewal{Claim: fence.Claim{Resource: resources[0], Token: 1, Holder: uuid.New()}, TTL: time.Minute})
			start := time.Now()
			errs := d.Renew(within(t, 400*time.Millisecond), rs)
			assert.Less(t, time.Since(start), 700*time.Millisecond)
			for i, err := range errs {
				switch {
				case i == len(errs)-1:
					require.ErrorIs(t, err, driver.ErrLost)
				case i/5 == bad:
					require.Error(t, err)
					require.NotErrorIs(t, err, driver.ErrLost)
				default:
					require.NoError(t, err)
				}
			}
		})
	}
}

// TestCluster_NodeKilled has Lockers with leases everywhere.
func TestCluster_L05_NodeKilled(t *testing.T) {
	t.Parallel()
	c := testenv.NewCluster(t, "--cluster-require-full-coverage", "no")
	l := newLocker(t, clusterClient(t, c))
	const bad = 2
	leases := map[int][]*lock.Lease{}
	for node := range nodes {
		for _, resource := range onNode(c, node, 4) {
			leases[node] = append(leases[node], acquire(t, l, resource, lock.WithTTL(3*time.Second)))
		}
	}
	c.Node(bad).Kill()
	died := time.Now()
	for _, lease := range leases[bad] {
		<-lease.Context().Done()
		require.ErrorIs(t, context.Cause(lease.Context()), lock.ErrLost)
		assert.Less(t, time.Since(died), 3500*time.Millisecond)
	}
	for time.Since(died) < 7*time.Second { // through the time in which the cluster finds out
		for node, healthy := range leases {
			for _, lease := range healthy {
				if node != bad {
					require.NoError(t, lease.Err(), "node %d", node)
				}
			}
		}
		<-time.After(20 * time.Millisecond)
	}
	c.Node(bad).Restart()
	c.AwaitState("ok")
	lease := acquire(t, l, leases[bad][0].Resource(), lock.WithRetryFor(30*time.Second))
	assert.Greater(t, lease.Token(), leases[bad][0].Token())
}

// TestCluster_L10_FairAndPushed has waiters with clients of their own, for resources on all nodes.
func TestCluster_L10_FairAndPushed(t *testing.T) {
	t.Parallel()
	c := testenv.NewCluster(t)
	holder := newLocker(t, clusterClient(t, c))
	const waiters = 4
	lockers := make([]*lock.Locker, waiters)
	for i := range lockers {
		lockers[i] = newLocker(t, clusterClient(t, c))
	}
	watch := redislock.New(clusterClient(t, c))
	for node := range nodes {
		resource := onNode(c, node, 1)[0]
		lease := acquire(t, holder, resource)
		type entry struct {
			i     int
			lease *lock.Lease
		}
		got := make(chan entry, waiters)
		for i, l := range lockers {
			go func() {
				lease, err := l.Acquire(t.Context(), resource)
				assert.NoError(t, err)
				got <- entry{i, lease}
			}()
			require.Eventually(t, func() bool {
				info, err := watch.Inspect(t.Context(), resource)
				return err == nil && info.Waiters == i+1
			}, 10*time.Second, time.Millisecond)
		}
		<-time.After(300 * time.Millisecond) // all have subscribed
		for want := range waiters {
			last := lease.Token()
			released := time.Now()
			require.NoError(t, lease.Release(t.Context()))
			next := <-got
			require.NotNil(t, next.lease)
			assert.Less(t, time.Since(released), 240*time.Millisecond, "it was not told")
			assert.Equal(t, want, next.i)
			assert.Greater(t, next.lease.Token(), last)
			lease = next.lease
		}
		require.NoError(t, lease.Release(t.Context()))
	}
}

// TestCluster_SlotMoved moves the slot of a resource that is held, renewed and waited for, and back.
func TestCluster_SlotMoved(t *testing.T) {
	t.Parallel()
	c := testenv.NewCluster(t)
	l, waiting := newLocker(t, clusterClient(t, c)), newLocker(t, clusterClient(t, c))
	resource := onNode(c, 0, 1)[0]
	slot := c.SlotOf(leaseKey(resource))
	// Others of the slot would do too; these are in it for sure.
	keys := []string{leaseKey(resource), fenceKey(resource), "{lock:" + resource + "}:queue", "{lock:" + resource + "}:seen"}

	lease := acquire(t, l, resource, lock.WithTTL(1500*time.Millisecond))
	got := make(chan *lock.Lease, 1)
	wait := func() {
		lease, err := waiting.Acquire(t.Context(), resource, lock.WithRetryFor(time.Minute))
		assert.NoError(t, err)
		got <- lease
	}
	go wait()
	watch := redislock.New(clusterClient(t, c))
	waits := func() bool {
		info, err := watch.Inspect(t.Context(), resource)
		return err == nil && info.Waiters == 1
	}
	require.Eventually(t, waits, 10*time.Second, time.Millisecond)
	held := func(d time.Duration) {
		t.Helper()
		for start := time.Now(); time.Since(start) < d; <-time.After(10 * time.Millisecond) {
			require.NoError(t, lease.Err())
			require.Empty(t, got, "two holders at once")
		}
	}
	var last fence.Token
	for _, to := range []int{1, 2, 0} {
		m := c.BeginMove(slot, to)
		held(700 * time.Millisecond) // renewed more than once
		m.Keys(keys[0])
		held(300 * time.Millisecond) // no command with two keys gets through
		m.Keys(keys[1])
		held(700 * time.Millisecond)
		m.Finish()
		held(700 * time.Millisecond)
		require.Greater(t, lease.Token(), last)
		last = lease.Token()
		require.NoError(t, lease.Release(t.Context()))
		next := <-got
		require.NotNil(t, next)
		require.Greater(t, next.Token(), last)
		require.NoError(t, next.Release(t.Context()))
		lease = acquire(t, l, resource, lock.WithTTL(1500*time.Millisecond))
		require.Greater(t, lease.Token(), next.Token())
		go wait()
		require.Eventually(t, waits, 10*time.Second, time.Millisecond)
	}
	require.NoError(t, lease.Release(t.Context()))
	require.NoError(t, (<-got).Release(t.Context()))
}
