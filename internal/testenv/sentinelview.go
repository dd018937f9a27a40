//go:build unix

package testenv

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

// leads is nil if a quorum of sentinels names that server, and it says the same.
func (s *Sentinel) leads(server int) error {
	addr := s.servers[server].addr
	votes := 0
	var errs []error
	for _, sentinel := range s.sentinels {
		if !sentinel.daemon.serving() {
			continue
		}
		answer, err := ask(sentinel.addr, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.master)
		if named := texts(answer); len(named) == 2 && net.JoinHostPort(named[0], named[1]) == addr {
			votes++
		}
		errs = append(errs, err)
	}
	if votes < sentinelQuorum {
		return errors.Join(append(errs, fmt.Errorf("%d of %d sentinels name %s", votes, len(s.sentinels), addr))...)
	}
	info, err := askText(addr, "INFO", "replication")
	if err == nil && infoField(info, "role") != "master" {
		err = fmt.Errorf("%s says it is a %s", addr, infoField(info, "role"))
	}
	return err
}

// whole is nil if everybody sees everybody, and server i as the primary.
func (s *Sentinel) whole(i int) error {
	primary, replica := s.servers[i].addr, s.servers[1-i].addr
	if err := inSync(primary, replica); err != nil {
		return err
	}
	for _, sentinel := range s.sentinels {
		if err := s.sees(sentinel.addr, primary, replica); err != nil {
			return err
		}
	}
	s.primary = i
	return nil
}

// inSync is nil if both say that one replicates the other.
func inSync(primary, replica string) error {
	info, err := askText(replica, "INFO", "replication")
	if err != nil {
		return err
	}
	of := net.JoinHostPort(infoField(info, "master_host"), infoField(info, "master_port"))
	if of != primary || infoField(info, "master_link_status") != "up" {
		return fmt.Errorf("%s is not in sync with %s", replica, primary)
	}
	info, err = askText(primary, "INFO", "replication")
	if err != nil {
		return err
	}
	if list := infoField(info, "slave0"); !strings.Contains(list, "port="+replica[strings.Index(replica, ":")+1:]+",state=online") {
		return fmt.Errorf("%s has no replica %s but %q", primary, replica, list)
	}
	return nil
}

// sees is nil if that sentinel is in touch with all.
func (s *Sentinel) sees(sentinel, primary, replica string) error {
	for _, q := range []struct {
		flags    string // of a server that is well
		question []string
		want     []string
	}{
		{"master", []string{"SENTINEL", "MASTERS"}, []string{primary}},
		{"slave", []string{"SENTINEL", "REPLICAS", s.master}, []string{replica}},
		{
			"sentinel",
			[]string{"SENTINEL", "SENTINELS", s.master},
			slices.DeleteFunc(s.Addrs(), func(a string) bool { return a == sentinel }),
		},
	} {
		answer, err := ask(sentinel, q.question...)
		if err != nil {
			return err
		}
		var seen []string
		items, _ := answer.([]any)
		for _, item := range items {
			m := pairs(item)
			if status, given := m["master-link-status"]; m["flags"] == q.flags && (!given || status == "ok") {
				seen = append(seen, net.JoinHostPort(m["ip"], m["port"]))
			}
		}
		slices.Sort(seen)
		slices.Sort(q.want)
		if !slices.Equal(seen, q.want) {
			return fmt.Errorf("%s at %s: %v are well, not %v", strings.Join(q.question, " "), sentinel, seen, q.want)
		}
	}
	return nil
}
