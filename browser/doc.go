// Package browser opens the page (internal/dashboard) in a real Chromium. It is a module of its own, so that nobody who
// imports Headway downloads what drives a browser.
package browser
