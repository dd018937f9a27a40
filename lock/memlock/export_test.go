package memlock

// Size is how much the store remembers.
func (d *Driver) Size() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := len(d.states) + len(d.abandoned) + len(d.listeners)
	for _, s := range d.states {
		n += len(s.line)
	}
	return n
}
