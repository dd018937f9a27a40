package locktest

import "github.com/ringfence/ringfence/lock/driver"

// Cases returns the names of all cases for d.
func Cases(d driver.Driver) []string {
	var names []string
	for _, c := range casesFor(d) {
		names = append(names, c.name)
	}
	return names
}

// Judge runs one case on d and returns what failed.
func Judge(d driver.Driver, name string) []string {
	for _, c := range casesFor(d) {
		if c.name == name {
			return tryOut(func(t tb) { judge(t, d, c) })
		}
	}
	return []string{"there is no case " + name}
}
