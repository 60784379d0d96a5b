package cli

import (
	"io"
	"log/slog"
)

// NewLogger returns the logger of --log-level and --log-format, and its level, which can change. A fault of them is a
// *UsageError.
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
		return slog.New(slog.NewJSONHandler(w, options)), level, nil
	}
	return nil, nil, Usage("--log-format: %q must be text or json", format)
}
