//go:build unix

package testenv

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSlotOf(t *testing.T) {
	t.Parallel()
	for key, same := range map[string]string{
		"{user}.a": "user", "b{user}": "user", "{user}{other}": "user", "a{{user}": "{user",
	} {
		assert.Equal(t, (*Cluster)(nil).SlotOf(same), (*Cluster)(nil).SlotOf(key), key)
	}
	// The number in the specification, and three that a server gave.
	for key, slot := range map[string]int{"123456789": 0x31c3, "foo": 12182, "": 0, "{}foo": 9500} {
		assert.Equal(t, slot, (*Cluster)(nil).SlotOf(key), key)
	}
}

func TestClusterSendsClientsToTheOwner(t *testing.T) {
	t.Parallel()
	c := NewCluster(t)
	require.Len(t, c.Addrs(), clusterPrimaries)
	assert.Equal(t, []int{0, 0, 1, 2, 2}, []int{c.Owner(0), c.Owner(5460), c.Owner(5461), c.Owner(10922), c.Owner(16383)})
	for _, key := range []string{"foo", "{}foo", "{", "}{a}b{c}", "{{a}}", "lock:{a", "\x00{\xff}"} {
		assert.EqualValues(t, c.SlotOf(key), answerOf(t, c.Addrs()[0], "CLUSTER", "KEYSLOT", key), "%q", key)
	}

	slot := c.SlotOf("foo")
	owner := c.Owner(slot)
	for i, addr := range c.Addrs() {
		var want any = respError(fmt.Sprintf("MOVED %d %s", slot, c.Addrs()[owner]))
		if i == owner {
			want = "OK"
		}
		assert.Equal(t, want, answerOf(t, addr, "SET", "foo", "bar"))
	}

	const many = 250
	for i := range many {
		require.Equal(t, "OK", answerOf(t, c.Addrs()[owner], "SET", fmt.Sprintf("{foo}%d", i), "bar", "PX", "600000"))
	}
	c.MoveSlot(slot, 0)
	require.Equal(t, 0, c.Owner(slot))
	assert.Equal(t, "bar", answerOf(t, c.Addrs()[0], "GET", "foo"))
	assert.EqualValues(t, many+1, answerOf(t, c.Addrs()[0], "CLUSTER", "COUNTKEYSINSLOT", fmt.Sprint(slot)))
	assert.Greater(t, answerOf(t, c.Addrs()[0], "PTTL", "{foo}7"), int64(0))
	for _, addr := range c.Addrs()[1:] {
		assert.Equal(t, respError(fmt.Sprintf("MOVED %d %s", slot, c.Addrs()[0])), answerOf(t, addr, "GET", "foo"))
	}
}

func TestClusterWithASlotOnItsWay(t *testing.T) {
	t.Parallel()
	c := NewCluster(t)
	slot := c.SlotOf("{foo}")
	from, to := c.Addrs()[c.Owner(slot)], c.Addrs()[0]
	moved, ask := respError(fmt.Sprintf("MOVED %d %s", slot, from)), respError(fmt.Sprintf("ASK %d %s", slot, to))
	for _, key := range []string{"{foo}1", "{foo}2"} {
		require.Equal(t, "OK", answerOf(t, from, "SET", key, "bar"))
	}

	m := c.BeginMove(slot, 0)
	assert.Equal(t, 2, c.Owner(slot))
	assert.Equal(t, "bar", answerOf(t, from, "GET", "{foo}1"))
	assert.Equal(t, ask, answerOf(t, from, "GET", "{foo}3"))
	assert.Equal(t, moved, answerOf(t, to, "GET", "{foo}1"))
	m.Keys("{foo}1")
	assert.Equal(t, ask, answerOf(t, from, "GET", "{foo}1"))
	assert.Equal(t, moved, answerOf(t, to, "GET", "{foo}1"))
	conn, err := dialResp(to)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	for _, asked := range []struct {
		answer   any
		question []string
	}{
		{"bar", []string{"GET", "{foo}1"}},
		{respError("TRYAGAIN Multiple keys request during rehashing of slot"), []string{"MGET", "{foo}1", "{foo}2"}},
		{"OK", []string{"SET", "{foo}3", "bar"}},
	} {
		_, err := conn.exchange([]string{"ASKING"})
		require.NoError(t, err)
		answer, err := conn.exchange(asked.question)
		if err != nil {
			answer = err
		}
		assert.Equal(t, asked.answer, answer)
	}
	assert.Contains(t, failureOf(t, func(tb testing.TB) {
		mine := *m
		mine.cluster = &Cluster{group: group{tb: tb}, nodes: c.nodes}
		mine.Keys("{foo}1")
	}), "node 2 has none of the keys")
	assert.Contains(t, failureOf(t, func(tb testing.TB) {
		mine := *c
		mine.tb = tb
		mine.BeginMove(slot, 2)
	}), "is on node 2 already")

	m.Finish()
	assert.Equal(t, 0, c.Owner(slot))
	assert.Equal(t, []any{"bar", "bar", "bar"}, answerOf(t, to, "MGET", "{foo}1", "{foo}2", "{foo}3"))
	moved = respError(fmt.Sprintf("MOVED %d %s", slot, to))
	assert.Equal(t, moved, answerOf(t, from, "GET", "{foo}1"))
	assert.Equal(t, moved, answerOf(t, c.Addrs()[1], "GET", "{foo}1"))
}

func TestClusterLosesANode(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ coverage, state string }{{"yes", "fail"}, {"no", "ok"}} {
		t.Run(test.coverage, func(t *testing.T) {
			t.Parallel()
			c := NewCluster(t, "--cluster-require-full-coverage", test.coverage)
			own := "{06S}" // in slot 0
			require.Zero(t, c.SlotOf(own))
			require.Equal(t, "OK", answerOf(t, c.Addrs()[0], "SET", own, "bar"))

			if test.state == "fail" {
				c.Node(1).Kill()
			} else {
				c.Node(1).Pause()
			}
			c.AwaitDown(1)
			c.AwaitState(test.state)
			if test.state == "ok" {
				assert.Equal(t, "bar", answerOf(t, c.Addrs()[0], "GET", own))
				c.MoveSlot(0, 2) // among those that are left
			} else {
				assert.Equal(t, respError("CLUSTERDOWN The cluster is down"), answerOf(t, c.Addrs()[0], "GET", own))
			}

			if test.state == "fail" {
				c.Node(1).Restart()
			} else {
				c.Node(1).Resume()
			}
			c.AwaitState("ok")
			c.MoveSlot(0, 1)
			assert.Equal(t, "bar", answerOf(t, c.Addrs()[1], "GET", own))
		})
	}
}

func TestReplicatedClusterFailover(t *testing.T) {
	t.Parallel()
	c := NewReplicatedCluster(t)
	require.Len(t, c.Addrs(), 2*clusterPrimaries)
	slot := c.SlotOf("foo")
	require.Equal(t, 2, c.Owner(slot))
	conn, err := dialResp(c.Addrs()[2])
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = conn.ask("SET", "foo", "bar")
	require.NoError(t, err)
	copies, err := conn.ask("WAIT", "1", "10000")
	require.NoError(t, err)
	require.EqualValues(t, 1, copies)

	c.Node(2).Kill()
	require.Equal(t, 5, c.AwaitFailover(2))
	assert.Equal(t, 5, c.Owner(slot))
	assert.Equal(t, "bar", answerOf(t, c.Addrs()[5], "GET", "foo"))
	c.Node(2).Restart()
	c.AwaitState("ok")
	assert.Equal(t, respError(fmt.Sprintf("MOVED %d %s", slot, c.Addrs()[5])), answerOf(t, c.Addrs()[2], "GET", "foo"))
	c.MoveSlot(slot, 0)
	assert.Equal(t, "bar", answerOf(t, c.Addrs()[0], "GET", "foo"))

	assert.Contains(t, failureOf(t, func(tb testing.TB) {
		mine := Cluster{group: group{tb: tb}, nodes: c.nodes[:clusterPrimaries]}
		mine.AwaitFailover(0)
	}), "take NewReplicatedCluster")
}

func TestViewOfAClusterIsParsed(t *testing.T) {
	t.Parallel()
	views, err := parseView("07c3 127.0.0.1:20001@30001,host master,fail? - 1 2 3 disconnected 0-5 7 [8->-07c4]\n" +
		"07c4 127.0.0.1:20002@30002 myself,slave 07c3 1 2 3 connected\n")
	require.NoError(t, err)
	require.Len(t, views, 2)
	assert.Equal(t, nodeView{
		addr: "127.0.0.1:20001", flags: []string{"master", "fail?"}, slots: [][2]int{{0, 5}, {7, 7}},
	}, views[0])
	for slot, has := range map[int]bool{0: true, 5: true, 6: false, 7: true, 8: false} {
		assert.Equal(t, has, views[0].has(slot), slot)
	}
	assert.False(t, views[0].healthy())
	assert.True(t, views[1].healthy())
	for _, bad := range []string{"07c3 127.0.0.1:1@2 master\n", "07c3 127.0.0.1:1@2 master - 1 2 3 connected 1-x\n"} {
		_, err := parseView(bad)
		assert.ErrorContains(t, err, "has not the expected form")
	}
}
