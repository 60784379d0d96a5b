// Package browser opens the page (internal/products/dashboard) in a real Chromium. It is a module of its own, so that a
// program that imports Headway does not download the browser driver.
package browser
