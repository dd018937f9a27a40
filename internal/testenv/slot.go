//go:build unix

package testenv

import "strings"

// SlotOf is the cluster slot of a key: that of its hash tag, if it has one.
func (*Cluster) SlotOf(key string) int {
	if _, rest, opened := strings.Cut(key, "{"); opened {
		if tag, _, closed := strings.Cut(rest, "}"); closed && tag != "" {
			key = tag
		}
	}
	return int(crc16(key)) % slots
}

// crc16 is CRC-16/XMODEM, which Redis Cluster takes.
func crc16(s string) (sum uint16) {
	const polynomial = 0x1021
	for i := range len(s) {
		sum ^= uint16(s[i]) << 8
		for range 8 {
			carry := sum&0x8000 != 0
			sum <<= 1
			if carry {
				sum ^= polynomial
			}
		}
	}
	return sum
}
