// Package stored is the form in which databases keep buckets and overrides: BSON, the same for every store.
package stored
