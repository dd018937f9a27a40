//go:build unix

package testenv

import (
	"fmt"
	"slices"
	"strconv"
)

// SlotMove is a slot on its way from one node to another. Both serve meanwhile: the old owner the keys it
// still has, for others it answers ASK; the new one what comes after ASKING.
type SlotMove struct {
	cluster  *Cluster
	slot     string
	from, to int
}

// Owner is the node that has the slot, according to the first node that is up.
func (c *Cluster) Owner(slot int) int {
	c.tb.Helper()
	up := c.serving()
	if len(up) == 0 {
		c.tb.Fatalf("testenv: the owner of slot %d in a cluster of which no node is up", slot)
	}
	owner, err := c.ownerFor(up[0], slot)
	c.must(err)
	return owner
}

// ownerFor is the one that this node says.
func (c *Cluster) ownerFor(node *Server, slot int) (int, error) {
	views, err := view(node)
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(views, func(v nodeView) bool { return v.has(slot) })
	if i < 0 {
		return 0, fmt.Errorf("it says nobody has slot %d", slot)
	}
	return c.index(views[i].addr), nil
}

// MoveSlot moves a slot with its keys to the given node while the cluster serves, as redis-cli does it.
// When it returns, every node that is up knows the new owner.
func (c *Cluster) MoveSlot(slot, to int) {
	c.tb.Helper()
	c.BeginMove(slot, to).Finish()
}

// BeginMove does the first half of [Cluster.MoveSlot]: both nodes know that the slot is to move; the
// keys are still where they were, and the slot's owner is the same.
func (c *Cluster) BeginMove(slot, to int) *SlotMove {
	c.tb.Helper()
	from := c.Owner(slot)
	if from == to {
		c.tb.Fatalf("testenv: slot %d is on node %d already", slot, to)
	}
	m := &SlotMove{cluster: c, slot: strconv.Itoa(slot), from: from, to: to}
	_, err := ask(c.nodes[to].addr, "CLUSTER", "SETSLOT", m.slot, "IMPORTING", c.ids[from])
	c.must(err)
	_, err = ask(c.nodes[from].addr, "CLUSTER", "SETSLOT", m.slot, "MIGRATING", c.ids[to])
	c.must(err)
	return m
}

// Keys moves some of the slot's keys, so that a command with several keys may find some here and some
// there, which is answered with TRYAGAIN.
func (m *SlotMove) Keys(keys ...string) {
	m.cluster.tb.Helper()
	answer, err := m.migrate(keys)
	if err == nil && answer != "OK" {
		err = fmt.Errorf("node %d has none of the keys %q", m.from, keys)
	}
	m.cluster.must(err)
}

// Finish moves the keys that are left, makes the new node the slot's owner, and waits until every node
// that is up knows it.
func (m *SlotMove) Finish() {
	c := m.cluster
	c.tb.Helper()
	c.must(m.drain())
	c.must(m.tellOwner())
	slot, _ := strconv.Atoi(m.slot)
	c.await("slot "+m.slot+" to be known as moved", groupLimit, func() error {
		return c.all(func(node *Server) error {
			owner, err := c.ownerFor(node, slot)
			if err == nil && owner != m.to {
				err = fmt.Errorf("it says node %d has the slot", owner)
			}
			return err
		})
	})
}

// drain moves all keys. No new ones come: the old owner sends clients to the new one for them.
func (m *SlotMove) drain() error {
	for {
		answer, err := ask(m.cluster.nodes[m.from].addr, "CLUSTER", "GETKEYSINSLOT", m.slot, "100")
		keys := texts(answer)
		if err != nil || len(keys) == 0 {
			return err
		}
		if _, err := m.migrate(keys); err != nil {
			return err
		}
	}
}

// tellOwner tells the primaries; a replica accepts it from its primary only. The new owner is first: a
// client that the old one sends there must not be sent back.
func (m *SlotMove) tellOwner() error {
	c := m.cluster
	told := []*Server{c.nodes[m.to].Server, c.nodes[m.from].Server}
	views, err := view(told[0])
	if err != nil {
		return err
	}
	for _, v := range views {
		node := c.nodes[c.index(v.addr)].Server
		if v.is("master") && node.daemon.serving() && !slices.Contains(told, node) {
			told = append(told, node)
		}
	}
	for _, node := range told {
		if _, err := ask(node.addr, "CLUSTER", "SETSLOT", m.slot, "NODE", c.ids[m.to]); err != nil {
			return err
		}
	}
	return nil
}

// migrate answers "OK", or "NOKEY" if none of the keys is there any more.
func (m *SlotMove) migrate(keys []string) (any, error) {
	to := m.cluster.nodes[m.to]
	args := []string{"MIGRATE", "127.0.0.1", strconv.Itoa(to.daemon.port), "", "0", "4000", "KEYS"}
	return ask(m.cluster.nodes[m.from].addr, append(args, keys...)...)
}
