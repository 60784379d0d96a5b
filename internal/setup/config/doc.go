// Package config reads headway.yaml and the environment for the commands. It reports all faults at once, with file
// and field. Secrets come from the environment only and are never part of an error.
package config
