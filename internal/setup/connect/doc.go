// Package connect opens the services that the commands use, as the environment names them, and words what goes wrong
// without showing credentials.
package connect
