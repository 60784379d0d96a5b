package cli

import (
	"io"
	"log/slog"
)

// NewLogger returns the logger of --log-level and --log-format, and its level, which can change. A fault of them is a
// *UsageError. Durations are in seconds in JSON, and the names of their attributes say so.
func NewLogger(w io.Writer, levelText, format string) (*slog.Logger, *slog.LevelVar, error) {
	level := &slog.LevelVar{}
	if err := level.UnmarshalText([]byte(levelText)); err != nil {
		return nil, nil, Usage("--log-level: %q must be debug, info, warn or error", levelText)
	}
	options := &slog.HandlerOptions{Level: level}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), level, nil
	case "json":
		options.ReplaceAttr = inSeconds
		return slog.New(slog.NewJSONHandler(w, options)), level, nil
	}
	return nil, nil, Usage("--log-format: %q must be text or json", format)
}

// inSeconds turns a duration into seconds.
func inSeconds(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() != slog.KindDuration {
		return a
	}
	return slog.Float64(a.Key+"_seconds", a.Value.Duration().Seconds())
}
