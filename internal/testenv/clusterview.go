//go:build unix

package testenv

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// nodeView is what one node of a cluster thinks of another, or of itself.
type nodeView struct {
	addr   string
	flags  []string
	linked bool
	slots  [][2]int // from, to
}

// view asks a node for the whole picture.
func view(node *Server) ([]nodeView, error) {
	text, err := askText(node.addr, "CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	return parseView(text)
}

// parseView reads lines of "<id> <ip:port@cport[,hostname]> <flags> <master> <ping> <pong> <epoch> <link>
// <slot> <from-to> [<slot being moved>] ...".
func parseView(text string) ([]nodeView, error) {
	var views []nodeView
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 8 {
			return nil, fmt.Errorf("a line of CLUSTER NODES has not the expected form: %q", line)
		}
		addr, _, _ := strings.Cut(fields[1], "@")
		v := nodeView{addr: addr, flags: strings.Split(fields[2], ","), linked: fields[7] == "connected"}
		for _, field := range fields[8:] {
			if strings.HasPrefix(field, "[") {
				continue
			}
			first, last, isRange := strings.Cut(field, "-")
			if !isRange {
				last = first
			}
			from, err1 := strconv.Atoi(first)
			to, err2 := strconv.Atoi(last)
			if err := errors.Join(err1, err2); err != nil {
				return nil, fmt.Errorf("a line of CLUSTER NODES has not the expected form: %q: %w", line, err)
			}
			v.slots = append(v.slots, [2]int{from, to})
		}
		views = append(views, v)
	}
	return views, nil
}

func (v nodeView) is(flag string) bool { return slices.Contains(v.flags, flag) }

func (v nodeView) healthy() bool {
	return v.linked && !slices.ContainsFunc(v.flags, func(flag string) bool {
		return flag != "myself" && flag != "master" && flag != "slave"
	})
}

func (v nodeView) has(slot int) bool {
	return slices.ContainsFunc(v.slots, func(r [2]int) bool { return r[0] <= slot && slot <= r[1] })
}

// all is nil if what asks nil of each node that is up, and there is one.
func (c *Cluster) all(what func(node *Server) error) error {
	up := c.serving()
	if len(up) == 0 {
		return errors.New("no node is up")
	}
	errs := make([]error, len(up))
	for i, node := range up {
		if err := what(node); err != nil {
			errs[i] = fmt.Errorf("node %d: %w", c.index(node.addr), err)
		}
	}
	return errors.Join(errs...)
}

// index is the number of the node at addr, -1 if there is none.
func (c *Cluster) index(addr string) int {
	return slices.IndexFunc(c.nodes, func(n *RedisServer) bool { return n.addr == addr })
}

// says is nil if the node gives the cluster that state.
func (*Cluster) says(node *Server, state string) error {
	info, err := askText(node.addr, "CLUSTER", "INFO")
	if got := infoField(info, "cluster_state"); err == nil && got != state {
		err = fmt.Errorf("its state is %q", got)
	}
	return err
}

// sees is nil if the node is in touch with all nodes that are up, and knows no others than ours.
func (c *Cluster) sees(node *Server) error {
	views, err := view(node)
	if err != nil {
		return err
	}
	if len(views) != len(c.nodes) {
		return fmt.Errorf("it knows %d of %d nodes", len(views), len(c.nodes))
	}
	for _, v := range views {
		i := c.index(v.addr)
		if i < 0 || c.nodes[i].daemon.serving() && !v.healthy() {
			return fmt.Errorf("it sees node %d at %s as %s", i, v.addr, strings.Join(v.flags, ","))
		}
	}
	return nil
}

// agree is nil if all nodes that are up have the same view of who is whose primary, with which slots. A node
// that comes back learns only by and by that it has been replaced.
func (c *Cluster) agree() error {
	var first string
	return c.all(func(node *Server) error {
		views, err := view(node)
		if err != nil {
			return err
		}
		picture := make([]string, len(views))
		for i, v := range views {
			picture[i] = fmt.Sprintf("node %d: primary %t, slots %v", c.index(v.addr), v.is("master"), v.slots)
		}
		slices.Sort(picture)
		all := strings.Join(picture, "; ")
		if first == "" {
			first = all
		}
		if all != first {
			return fmt.Errorf("its view is %s; another one's is %s", all, first)
		}
		return nil
	})
}

// misses is nil if the node knows, agreed with others, that node i has failed.
func (c *Cluster) misses(node *Server, i int) error {
	views, err := view(node)
	if err != nil {
		return err
	}
	for _, v := range views {
		if c.index(v.addr) == i && v.is("fail") {
			return nil
		}
	}
	return fmt.Errorf("it does not say that node %d has failed", i)
}

// trusts is nil if the node sees node i as a primary with slots, and its companion without.
func (c *Cluster) trusts(node *Server, i int) error {
	views, err := view(node)
	if err != nil {
		return err
	}
	for _, v := range views {
		switch j := c.index(v.addr); {
		case j == i && (!v.is("master") || len(v.slots) == 0):
			return fmt.Errorf("it sees node %d as %s with slots %v", j, strings.Join(v.flags, ","), v.slots)
		case j != i && j%clusterPrimaries == i%clusterPrimaries && len(v.slots) > 0:
			return fmt.Errorf("it sees node %d with slots %v", j, v.slots)
		}
	}
	return nil
}

// isWhole is nil if the node sees the cluster as NewCluster wants it.
func (c *Cluster) isWhole(node *Server) error {
	if err := errors.Join(c.says(node, "ok"), c.sees(node)); err != nil {
		return err
	}
	for i := range clusterPrimaries {
		if err := c.trusts(node, i); err != nil {
			return err
		}
	}
	info, err := askText(node.addr, "INFO", "replication")
	if err != nil {
		return err
	}
	if c.index(node.addr) >= clusterPrimaries && infoField(info, "master_link_status") != "up" {
		return fmt.Errorf("it is a %s and not in sync", infoField(info, "role"))
	}
	return nil
}
