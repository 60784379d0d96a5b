package bullmq

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/headway-go/headway/bench/contest"
)

// The programs, and the variable with the limiter of a worker.
const (
	workerProgram   = "worker.mjs"
	producerProgram = "producer.mjs"
	limiterVariable = "BULLMQ_LIMITER"
)

// installTimeout is the timeout of npm.
const installTimeout = 3 * time.Minute

// ErrNoNode means that a machine can't run BullMQ.
var ErrNoNode = errors.New("BullMQ needs node and npm, which are not in PATH")

// programs are the files of this package that Node needs.
//
//go:embed package.json package-lock.json worker.mjs producer.mjs
var programs embed.FS

// installation is the folder of the programs and their packages.
type installation struct{ node, dir string }

// install puts programs and packages into a directory of the user's cache, unless they are there already. The
// directory is named after a hash of the programs. install installs exactly the packages of package-lock.json, and
// runs no script of a package.
func install() (installation, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return installation{}, ErrNoNode
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return installation{}, ErrNoNode
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return installation{}, fmt.Errorf("bullmq: where to install: %w", err)
	}
	parent := filepath.Join(cache, "headway-bench")
	if err = os.MkdirAll(parent, 0o750); err != nil {
		return installation{}, fmt.Errorf("bullmq: install: %w", err)
	}
	fresh, err := os.MkdirTemp(parent, "bullmq-new-")
	if err != nil {
		return installation{}, fmt.Errorf("bullmq: install: %w", err)
	}
	defer func() { _ = os.RemoveAll(fresh) }()
	name, err := unpack(fresh)
	if err != nil {
		return installation{}, err
	}
	in := installation{node: node, dir: filepath.Join(parent, "bullmq-"+name)}
	if in.complete() {
		return in, nil
	}
	if err = fetch(npm, fresh); err != nil {
		return installation{}, err
	}
	if err = os.Rename(fresh, in.dir); err != nil && !in.complete() { // another process may have been faster
		return installation{}, fmt.Errorf("bullmq: install: %w", err)
	}
	return in, nil
}

// unpack writes the programs to dir, and returns a hash of them.
func unpack(dir string) (name string, err error) {
	entries, err := programs.ReadDir(".")
	if err != nil {
		return "", fmt.Errorf("bullmq: unpack: %w", err)
	}
	sum := sha256.New()
	for _, e := range entries {
		content, err := programs.ReadFile(e.Name())
		if err != nil {
			return "", fmt.Errorf("bullmq: unpack: %w", err)
		}
		if err = os.WriteFile(filepath.Join(dir, e.Name()), content, 0o600); err != nil {
			return "", fmt.Errorf("bullmq: unpack: %w", err)
		}
		fmt.Fprintf(sum, "%s %d\n%s", e.Name(), len(content), content)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

// fetch lets npm install the packages of package-lock.json in dir.
func fetch(npm, dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), installTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("bullmq: npm ci: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// complete returns whether the installation is complete: the directory gets its name last.
func (i installation) complete() bool {
	_, err := os.Stat(i.dir)
	return err == nil
}

// command returns the command of a program, with env in its environment.
func (i installation) command(env contest.Env, program string, variables ...string) (*exec.Cmd, error) {
	text, err := json.Marshal(env)
	if err != nil {
		return nil, fmt.Errorf("bullmq: environment: %w", err)
	}
	//nolint:gosec,noctx // our own program; the runner stops it by a signal
	cmd := exec.Command(i.node, filepath.Join(i.dir, program))
	cmd.Env = append(append(os.Environ(), contest.EnvVariable+"="+string(text)), variables...)
	return cmd, nil
}

// Version returns the version of BullMQ in package.json.
func Version() string {
	var manifest struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	text, err := programs.ReadFile("package.json")
	if err == nil {
		err = json.Unmarshal(text, &manifest)
	}
	if err != nil {
		return "" // impossible: the file is part of this program
	}
	return manifest.Dependencies["bullmq"]
}
