package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// info is a section of INFO, by name.
func (s *server) info(ctx context.Context, section string) (map[string]string, error) {
	text, err := s.admin.Info(ctx, section).Result()
	if err != nil {
		return nil, err
	}
	return parseInfo(text), nil
}

func parseInfo(text string) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); found && !strings.HasPrefix(line, "#") {
			values[name] = value
		}
	}
	return values
}

// commands are how often the server has carried out each command, those inside scripts too, but for
// our own INFO.
func (s *server) commands(ctx context.Context) (commandCounts, error) {
	stats, err := s.info(ctx, "commandstats")
	if err != nil {
		return nil, err
	}
	return parseCommandStats(stats)
}

type commandCounts map[string]int64

func parseCommandStats(stats map[string]string) (commandCounts, error) {
	counts := commandCounts{}
	for name, value := range stats {
		command, isCommand := strings.CutPrefix(name, "cmdstat_")
		if !isCommand || command == "info" {
			continue
		}
		text, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("INFO commandstats has %s:%s: %w", name, value, err)
		}
		counts[command] = n
	}
	return counts, nil
}

func (c commandCounts) total() (sum int64) {
	for _, n := range c {
		sum += n
	}
	return sum
}

// usedMemory is what the server's data and connections take, in bytes.
func (s *server) usedMemory(ctx context.Context) (int64, error) {
	memory, err := s.info(ctx, "memory")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(memory["used_memory"], 10, 64)
}
