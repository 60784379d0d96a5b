// Package setup describes the machine and the versions of a session.
package setup

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/bench/results"
)

// Describe describes this machine, the versions of the services, and the modules of this program. It leaves out
// unknown values.
func Describe(ctx context.Context, mongoURI string) (results.Session, error) {
	set := map[string]string{
		"Go": strings.TrimPrefix(runtime.Version(), "go"), "system": runtime.GOOS + "/" + runtime.GOARCH,
		"processors": strconv.Itoa(runtime.NumCPU()),
	}
	note(set, "CPU", after(read("/proc/cpuinfo"), "model name"))
	if kib, err := strconv.Atoi(strings.TrimSuffix(after(read("/proc/meminfo"), "MemTotal"), " kB")); err == nil {
		set["memory"] = fmt.Sprintf("%.0f GB", float64(kib)/1e6)
	}
	note(set, "kernel", strings.TrimSpace(read("/proc/sys/kernel/osrelease")))
	redis := output(ctx, "redis-server", "--version")
	if _, version, found := strings.Cut(redis, "v="); found {
		note(set, "Redis", strings.Fields(version)[0])
	}
	note(set, "Node", strings.TrimPrefix(output(ctx, "node", "--version"), "v"))
	mongodb, err := mongoVersion(ctx, mongoURI)
	if err != nil {
		return results.Session{}, err
	}
	note(set, "MongoDB", mongodb)
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			switch module.Path {
			case "github.com/hibiken/asynq", "github.com/redis/go-redis/v9", "github.com/go-redis/redis_rate/v10",
				"golang.org/x/time":
				set[module.Path] = module.Version
			}
		}
	}
	commit := output(ctx, "git", "rev-parse", "--short=12", "HEAD")
	if output(ctx, "git", "status", "--porcelain", "--untracked-files=no", "--", ":/", ":!/docs") != "" {
		commit += " with changes"
	}
	return results.Session{Date: time.Now().UTC().Format(time.DateTime) + " UTC", Commit: commit, Set: set}, nil
}

// mongoVersion returns the version of the server. A FerretDB is named as such.
func mongoVersion(ctx context.Context, uri string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		return "", fmt.Errorf("setup: MongoDB: %w", err)
	}
	defer func() { _ = client.Disconnect(ctx) }()
	var info struct {
		Version  string `bson:"version"`
		FerretDB struct {
			Version string `bson:"version"`
		} `bson:"ferretdb"`
	}
	if err = client.Database("admin").RunCommand(ctx, bson.M{"buildInfo": 1}).Decode(&info); err != nil {
		return "", fmt.Errorf("setup: MongoDB does not answer: %w", err)
	}
	if info.FerretDB.Version != "" {
		return "FerretDB " + strings.TrimPrefix(info.FerretDB.Version, "v") + ", which emulates MongoDB " +
			info.Version, nil
	}
	return info.Version, nil
}

func note(set map[string]string, name, value string) {
	if value != "" {
		set[name] = value
	}
}

func read(path string) string {
	text, err := os.ReadFile(path) //nolint:gosec // names from above
	if err != nil {
		return ""
	}
	return string(text)
}

// after returns the text behind "name:" in a line.
func after(text, name string) string {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func output(ctx context.Context, name string, args ...string) string {
	out, err := exec.CommandContext(ctx, name, args...).Output() //nolint:gosec // names from above
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
