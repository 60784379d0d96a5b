// Package config reads headway.yaml and the environment for the commands. Every fault is reported at once, with the file and
// the field it is in. Secrets come from the environment only and are never part of an error.
package config
