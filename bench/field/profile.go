package field

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"

	"github.com/headway-go/headway/bench/contest"
)

// profiled calls work, and writes a CPU profile into the folder that env names: <work>-<contestant>-<pid>.pprof.
func profiled(env contest.Env, work func() error) (err error) {
	if env.Profile == "" {
		return work()
	}
	file, err := os.Create(
		filepath.Join(env.Profile, fmt.Sprintf("%s-%s-%d.pprof", env.Work, env.Contestant, os.Getpid())))
	if err != nil {
		return fmt.Errorf("field: profile: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err = pprof.StartCPUProfile(file); err != nil {
		return fmt.Errorf("field: profile: %w", err)
	}
	defer pprof.StopCPUProfile()
	return work()
}
