package session

import (
	"cmp"
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/reservations"
)

// membersPatience bounds how long a command that needs no queue waits for it.
const membersPatience = 500 * time.Millisecond

// sources are where the limits of a session come from: the live workers of the fleet, and headway.yaml.
type sources struct {
	enforces bool
	name     string // of the file
	file     []reservations.Limit
	members  []register.Member
	differs  atomic.Pointer[map[string]register.Source]
}

// of returns where a limit comes from.
func (s *sources) of(limit string) register.Source {
	if all := s.differs.Load(); all != nil {
		return (*all)[limit]
	}
	return register.Source{}
}

// limits are the limits to go by.
func (s *sources) limits() []reservations.Limit {
	all := register.Sources(s.members, s.name, s.file)
	s.differs.Store(&all)
	if !s.enforces {
		return register.InForce(s.members, s.file)
	}
	own := register.Member{Name: s.name, Limits: register.ByName(s.file)}
	return register.InForce([]register.Member{own}, register.InForce(s.members, nil))
}

// readSources sets the limits that the session goes by. While the register can't be read, these are the ones of the
// file.
func (s *Session) readSources(ctx context.Context, env cli.Environment, needs Needs) {
	s.sources = &sources{
		enforces: needs.Enforces, name: cmp.Or(needs.File, config.FileDefault), file: s.Config.Limits,
	}
	queue := s.Queue
	if queue == nil {
		soon, cancel := context.WithTimeout(ctx, membersPatience)
		defer cancel()
		client, err := connect.Redis(soon, env.Getenv)
		if err != nil {
			return // the command needs no queue
		}
		defer func() { _ = client.Close() }()
		queue = client
	}
	s.readMembers(ctx, queue)
	s.Config.Limits = s.sources.limits()
}

// readMembers reads the live workers. While they can't be read, the last ones count.
func (s *Session) readMembers(ctx context.Context, queue redis.UniversalClient) {
	if members, err := register.New(queue).Members(ctx); err == nil {
		s.sources.members = members
	}
}

// Settings are the settings of a file. The limits of live workers are added if the file does not know what a command
// names, or the default file is missing. If Redis does not answer, none are added.
func Settings(
	ctx context.Context, env cli.Environment, file string, knows func(config.Config) bool,
) (config.Config, error) {
	c, err := config.Load(file)
	if missing := FileMissing(err, file); err == nil && knows(c) || err != nil && !missing {
		return c, err
	}
	s := &Session{Config: c}
	s.readSources(ctx, env, Needs{})
	if len(s.Config.Limits) == 0 {
		return c, err
	}
	return s.Config, nil
}

// FileMissing says whether the file of the settings is missing, and was not named.
func FileMissing(err error, file string) bool {
	return errors.Is(err, os.ErrNotExist) && file == config.FileDefault
}
