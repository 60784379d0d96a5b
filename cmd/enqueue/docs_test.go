package main

import (
	"testing"

	"github.com/headway-go/headway/internal/clitest"
)

func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	clitest.Documented(t, "../..", "enqueue", rootCommand)
}
