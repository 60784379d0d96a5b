package scheduler

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/reservations"
)

const (
	// root is where the keys of all lines begin. The hash tag keeps them on one node of a cluster.
	root = "headway:{line}:"
	// outageLine is where tasks wait while the bucket can't be asked. It runs on Redis's own clock, ahead of it after a release.
	outageLine = "outage"
	// placeKept is how much longer than the wait a place is kept, for tasks that are delivered late.
	placeKept = 24 * time.Hour
	// lease is how long a waker has to wake what it took out of a line.
	lease = 2 * time.Second
	// wakeAlong is how much sooner tasks are woken along with one whose time has come, so that a script wakes several.
	wakeAlong = 50 * time.Millisecond
	// restMost is how long the waker on duty rests at most: a task that another process put in front is late by no more, should the news of it be lost.
	restMost = 5 * time.Second
	// restOthers is how much later the others look whether the one on duty is still there.
	restOthers = 100 * time.Millisecond
)

// lines are the waiting tasks in Redis: one line for each bucket and generation, sorted by due. Each method is one script,
// and so one atomic change. Safe for concurrent use.
type lines struct {
	client                                           redis.UniversalClient
	recording, recalling, moving, releasing, popping *redis.Script
	looking                                          *redis.Script
}

func newLines(client redis.UniversalClient) lines {
	return lines{
		client: client, recording: redis.NewScript(recordScript), recalling: redis.NewScript(recallScript),
		moving: redis.NewScript(moveScript), releasing: redis.NewScript(releaseScript), popping: redis.NewScript(popScript),
		looking: redis.NewScript(aheadScript),
	}
}

// movement is what an answer of a bucket says about its line.
type movement struct {
	line    string
	at      time.Time // the bucket's clock when it answered
	heard   time.Time // when the answer came, on the local clock
	shift   time.Duration
	speed   float64 // line seconds in a second from at on; never zero
	version int64
	gap     time.Duration // what tasks that were withdrawn would have taken of the line's time
}

// movementOf reads the outcome's part about the line. Heard is when it came.
func movementOf(bucket string, o reservations.Outcome, heard time.Time) movement {
	o = onItsLine(o)
	return movement{line: lineName(bucket, o.Generation) + lineMark(o), at: o.At, heard: heard, shift: o.Shift, speed: speedOf(o), version: o.Version}
}

func lineName(bucket string, generation int64) string {
	return bucket + "@" + strconv.FormatInt(generation, 10)
}

// speedOf is 1 where the outcome has none, or one that no clock can have.
func speedOf(o reservations.Outcome) float64 {
	if o.Speed > 0 && !math.IsInf(o.Speed, 0) {
		return o.Speed
	}
	return 1
}

// args are the clock's part of a script's arguments. The answer has aged since it was heard, by the local monotonic clock.
func (m movement) args() []any {
	return []any{
		m.at.Add(time.Since(m.heard)).UnixMicro(), m.shift.Microseconds(), m.version,
		m.at.UnixMicro(), strconv.FormatFloat(m.speed, 'f', -1, 64),
	}
}

// entry is one task of a line.
type entry struct {
	task Task
	due  time.Time     // on the clock of the line, jitter included
	wait time.Duration // from now, about: how long the place has to be kept; in the outage line when the task is due
	kept keptPlace
}

// keptPlace is what Redis holds for a waiting task; what is beside the place is for people.
type keptPlace struct {
	reservations.Place
	Bucket string              `json:"bucket"`
	Tokens reservations.Tokens `json:"tokens,omitempty"`
	Since  time.Time           `json:"since"`
	// Others are the places that the task has with other buckets; it stands in the line of this one alone.
	Others []Held `json:"others,omitempty"`
}

// note is what there is to keep about one task: that it stands in the line of the movement.
type note struct {
	movement movement // the zero one but for its line where that is on Redis's own clock
	entry    entry
}

// outageNote lets the entry stand in the outage line: it is due when its wait is over.
func outageNote(e entry) note { return note{movement: movement{line: outageLine}, entry: e} }

// args are the part of a script's arguments that says how the line's clock is to follow.
func (n note) args() []any {
	if n.movement.line == outageLine {
		return []any{outageLine, "", 0, 0, 0, 1}
	}
	return append([]any{n.movement.line}, n.movement.args()...)
}

// due is when the task is due, as the line counts.
func (n note) due() int64 {
	if n.movement.line == outageLine {
		return n.entry.wait.Microseconds()
	}
	return n.entry.due.UnixMicro()
}

// record keeps the places of the entries and lets them stand in the line of m. When that makes the first task of all due
// earlier than any before, first is how long until then.
func (l lines) record(ctx context.Context, m movement, entries []entry) (first time.Duration, earlier bool, err error) {
	notes := make([]note, len(entries))
	for i, e := range entries {
		notes[i] = note{movement: m, entry: e}
	}
	return l.recordAll(ctx, notes)
}

// recordAll is record for tasks of any lines. Of several answers of one bucket its line follows the newest.
func (l lines) recordAll(ctx context.Context, notes []note) (first time.Duration, earlier bool, err error) {
	args := []any{root}
	for _, together := range byNoted(notes) {
		newest := slices.MaxFunc(together, func(a, b note) int { return cmp.Compare(a.movement.version, b.movement.version) })
		args = append(append(args, newest.args()...), len(together))
		for _, n := range together {
			place, failed := json.Marshal(n.entry.kept)
			if failed != nil {
				return 0, false, fmt.Errorf("record the place of %s: %w", n.entry.task, failed)
			}
			args = append(args, n.entry.task.String(), n.due(), place, (n.entry.wait + placeKept).Milliseconds())
		}
	}
	answer, err := l.recording.Run(ctx, l.client, []string{root + "index", root + "leased"}, args...).Text()
	return brought(answer, err, "record places")
}

// byNoted sorts notes by their lines, in order.
func byNoted(notes []note) [][]note {
	return grouped(notes, func(n note) string { return n.movement.line })
}

// move makes the lines follow their buckets. First and earlier are as for record.
func (l lines) move(ctx context.Context, moves []movement) (first time.Duration, earlier bool, err error) {
	args := []any{root}
	for _, m := range moves {
		args = append(append(append(args, m.line), m.args()...), m.gap.Microseconds())
	}
	answer, err := l.moving.Run(ctx, l.client, []string{root + "index", root + "leased"}, args...).Text()
	return brought(answer, err, "move lines")
}

// release makes everybody in the outage line due. First and earlier are as for record.
func (l lines) release(ctx context.Context) (first time.Duration, earlier bool, err error) {
	answer, err := l.releasing.Run(ctx, l.client, []string{root + "index", root + "leased"}, root, outageLine).Text()
	return brought(answer, err, "release the outage line")
}

// brought reads an answer in microseconds that may be empty.
func brought(answer string, err error, operation string) (time.Duration, bool, error) {
	if err != nil {
		return 0, false, fmt.Errorf("%s: %w", operation, err)
	}
	if answer == "" {
		return 0, false, nil
	}
	d, err := microseconds(answer)
	return d, err == nil, err
}

func microseconds(s string) (time.Duration, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read an answer in microseconds: %w", err)
	}
	return time.Duration(n) * time.Microsecond, nil
}

// recalled is what was kept for one task. The error says that it could not be read.
type recalled struct {
	place keptPlace
	err   error
}

// recallAll hands out what is kept for the tasks, in their order, zero where there is nothing, and takes them out of their lines.
func (l lines) recallAll(ctx context.Context, tasks []Task) ([]recalled, error) {
	args := []any{root}
	for _, t := range tasks {
		args = append(args, t.String())
	}
	texts, err := l.recalling.Run(ctx, l.client, []string{root + "index", root + "leased"}, args...).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("recall places: %w", err)
	}
	if len(texts) != len(tasks) {
		return nil, fmt.Errorf("recall places: %d answers for %d tasks", len(texts), len(tasks))
	}
	all := make([]recalled, len(tasks))
	for i, t := range tasks {
		if texts[i] == "" {
			continue
		}
		if err := json.Unmarshal([]byte(texts[i]), &all[i].place); err != nil {
			all[i] = recalled{err: fmt.Errorf("recall the place of %s: %w", t, err)}
		}
	}
	return all, nil
}

// placed says for each of the tasks of a queue whether a place is kept for it.
func (l lines) placed(ctx context.Context, queue string, tasks []pendingTask) ([]bool, error) {
	kept, err := l.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, t := range tasks {
			p.Exists(ctx, root+"place:"+Task{Queue: queue, ID: t.id}.String())
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for the places of tasks: %w", err)
	}
	places := make([]bool, len(tasks))
	for i, answer := range kept {
		if n, ok := answer.(*redis.IntCmd); ok {
			places[i] = n.Val() > 0
		}
	}
	return places, nil
}

// attended is what became of a task that was leased: done, or to be tried again after a pause.
type attended struct {
	task  Task
	again time.Duration // zero: done
}

// pop takes at most so many tasks whose time has come, less early, and those that are due a little later (wakeAlong, but no more than early), and leases them to the waker with this id, after it has
// noted what became of those taken before. Rest is how long the waker may wait until it asks again. With most zero it only
// takes the notes and the waker off duty.
func (l lines) pop(ctx context.Context, id string, early time.Duration, most int, notes []attended) (taken dueTasks, rest time.Duration, err error) {
	args := []any{root, id, early.Microseconds(), most, lease.Microseconds(), restMost.Microseconds(), restOthers.Microseconds(), min(early, wakeAlong).Microseconds()}
	for _, n := range notes {
		again := ""
		if n.again > 0 {
			again = strconv.FormatInt(n.again.Microseconds(), 10)
		}
		args = append(args, n.task.String(), again)
	}
	answer, err := l.popping.Run(ctx, l.client, []string{root + "index", root + "leased", root + "waker"}, args...).StringSlice()
	if err != nil {
		return dueTasks{}, 0, fmt.Errorf("take due tasks out of their lines: %w", err)
	}
	if rest, err = microseconds(answer[0]); err != nil {
		return dueTasks{}, 0, err
	}
	urgent, err := strconv.Atoi(answer[1])
	if err != nil {
		return dueTasks{}, 0, fmt.Errorf("read how many tasks are urgent: %w", err)
	}
	for i, s := range answer[2:] {
		t, err := parseTask(s)
		switch {
		case err != nil: // nobody can wake that; it must not keep others from being woken
			if err := l.client.ZRem(ctx, root+"leased", s).Err(); err != nil {
				return dueTasks{}, 0, fmt.Errorf("take a broken entry out of its line: %w", err)
			}
		case i < urgent:
			taken.urgent = append(taken.urgent, t)
		default:
			taken.ordinary = append(taken.ordinary, t)
		}
	}
	return taken, rest, nil
}

// dueTasks are those whose time has come, in the order of their lines.
type dueTasks struct{ urgent, ordinary []Task }

func (d dueTasks) all() []Task { return slices.Concat(d.urgent, d.ordinary) }
