//go:build unix

package testenv

import (
	"fmt"
	"strconv"
	"testing"
)

const (
	slots            = 16384
	clusterPrimaries = 3
)

// Cluster is a Redis Cluster of three primaries, each with a third of the slots; node 0 has the lowest.
// A silent node counts as failed after two to four seconds. It belongs to one test: call its methods
// from the test's goroutine.
type Cluster struct {
	group
	nodes []*RedisServer
	ids   []string
}

// NewCluster starts such a cluster for this test alone; the test's end stops it. When it returns, every
// node says cluster_state:ok and sees all others. args are added to each command line, as in
// [NewRedis]: by default data is not written to disk, so a killed and restarted node has its slots and
// no keys; with "--cluster-require-full-coverage", "no" the others go on while one is down. Under -short
// the test is skipped.
func NewCluster(tb testing.TB, args ...string) *Cluster {
	tb.Helper()
	return newCluster(tb, 0, args)
}

// NewReplicatedCluster is [NewCluster] with a replica for each primary: node i+3 is that of node i, in
// sync, and takes its place after about four seconds of silence: see [Cluster.AwaitFailover].
func NewReplicatedCluster(tb testing.TB, args ...string) *Cluster {
	tb.Helper()
	return newCluster(tb, clusterPrimaries, args)
}

func newCluster(tb testing.TB, replicas int, args []string) *Cluster {
	tb.Helper()
	skipShort(tb, "Redis")
	c := &Cluster{group: group{tb: tb, name: "Cluster"}}
	path, err := redisServer.find()
	c.must(err)
	k := clusterKind{redisKind{path: path, args: append([]string{
		"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-announce-ip", "127.0.0.1",
		"--cluster-node-timeout", "2000", "--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0",
	}, args...)}}
	for _, d := range c.add(clusterPrimaries+replicas, func(int) (*daemon, error) { return startRedisKind(k, "") }) {
		node := newRedisServer(tb, d, true)
		c.nodes = append(c.nodes, node)
		c.members = append(c.members, node.Server)
	}
	c.must(c.join())
	if replicas > 0 {
		c.await("to know each other", startLimit, func() error { return c.all(c.sees) })
		c.must(c.replicate())
	}
	c.await("to be complete", startLimit, func() error { return c.all(c.isWhole) })
	return c
}

// join makes one cluster of the nodes.
func (c *Cluster) join() error {
	for i, node := range c.nodes {
		id, err := askText(node.addr, "CLUSTER", "MYID")
		if err != nil {
			return err
		}
		c.ids = append(c.ids, id)
		// Different from the start, or the nodes would have to settle it.
		if _, err := ask(node.addr, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
		if i < clusterPrimaries {
			args := []string{"CLUSTER", "ADDSLOTS"}
			for slot := i * slots / clusterPrimaries; slot < (i+1)*slots/clusterPrimaries; slot++ {
				args = append(args, strconv.Itoa(slot))
			}
			if _, err := ask(node.addr, args...); err != nil {
				return err
			}
		}
		for _, known := range c.nodes[:i] { // each other node at once, rather than by hearsay
			if _, err := ask(node.addr, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(known.daemon.port)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Cluster) replicate() error {
	for i, node := range c.nodes[clusterPrimaries:] {
		if _, err := ask(node.addr, "CLUSTER", "REPLICATE", c.ids[i]); err != nil {
			return err
		}
	}
	return nil
}

// Addrs are the addresses of all nodes.
func (c *Cluster) Addrs() []string { return addrs(c.members) }

// Node is one of the nodes, to be paused, killed and restarted. A restarted node rejoins by itself:
// wait for that with [Cluster.AwaitState].
func (c *Cluster) Node(i int) *RedisServer { return c.nodes[i] }

// AwaitState waits until every node that is up says that the cluster's state is "ok", or "fail", and, if
// it is to be ok, sees all others that are up and agrees with them on who has which slots. A node that is
// down is noticed only after a while: see [Cluster.AwaitDown].
func (c *Cluster) AwaitState(state string) {
	c.tb.Helper()
	c.await("state "+state, groupLimit, func() error {
		err := c.all(func(node *Server) error { return c.says(node, state) })
		if err != nil || state != "ok" {
			return err
		}
		if err := c.all(c.sees); err != nil {
			return err
		}
		return c.agree()
	})
}

// AwaitDown waits until every node that is up has found out that node i isn't.
func (c *Cluster) AwaitDown(i int) {
	c.tb.Helper()
	c.await(fmt.Sprintf("node %d to be found down", i), groupLimit, func() error {
		return c.all(func(node *Server) error { return c.misses(node, i) })
	})
}

// AwaitFailover waits until every node that is up says that node i's companion has its slots, and that
// all is well, and returns the companion. Only a replicated cluster can do that.
func (c *Cluster) AwaitFailover(i int) (successor int) {
	c.tb.Helper()
	if len(c.nodes) == clusterPrimaries {
		c.tb.Fatalf("testenv: a failover in a cluster without replicas: take NewReplicatedCluster")
	}
	successor = (i + clusterPrimaries) % len(c.nodes)
	c.await(fmt.Sprintf("failover from node %d", i), groupLimit, func() error {
		return c.all(func(node *Server) error {
			if err := c.says(node, "ok"); err != nil {
				return err
			}
			return c.trusts(node, successor)
		})
	})
	return successor
}

type clusterKind struct{ redisKind }

func (clusterKind) name() string           { return "Cluster" }
func (clusterKind) freePort() (int, error) { return freeClusterPort() }
