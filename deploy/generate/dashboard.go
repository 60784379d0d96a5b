package main

import (
	"bytes"
	"encoding/json"
)

// The parts of Grafana's dashboard JSON that are used.
type (
	board struct {
		UID           string   `json:"uid"`
		Title         string   `json:"title"`
		Tags          []string `json:"tags"`
		SchemaVersion int      `json:"schemaVersion"`
		Editable      bool     `json:"editable"`
		Refresh       string   `json:"refresh"`
		Time          span     `json:"time"`
		Templating    struct {
			List []variable `json:"list"`
		} `json:"templating"`
		Panels []panel `json:"panels"`
	}
	span struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
	variable struct {
		Name       string  `json:"name"`
		Label      string  `json:"label"`
		Type       string  `json:"type"`
		Query      string  `json:"query"`
		Datasource *source `json:"datasource,omitempty"`
		Refresh    int     `json:"refresh"`
		IncludeAll bool    `json:"includeAll"`
		Multi      bool    `json:"multi"`
		AllValue   string  `json:"allValue,omitempty"`
	}
	source struct {
		Type string `json:"type"`
		UID  string `json:"uid"`
	}
	panel struct {
		ID          int      `json:"id"`
		Type        string   `json:"type"`
		Title       string   `json:"title"`
		Description string   `json:"description,omitempty"`
		Datasource  *source  `json:"datasource,omitempty"`
		GridPos     position `json:"gridPos"`
		Targets     []target `json:"targets,omitempty"`
		FieldConfig *fields  `json:"fieldConfig,omitempty"`
	}
	position struct {
		H int `json:"h"`
		W int `json:"w"`
		X int `json:"x"`
		Y int `json:"y"`
	}
	target struct {
		RefID        string  `json:"refId"`
		Expr         string  `json:"expr"`
		LegendFormat string  `json:"legendFormat"`
		Datasource   *source `json:"datasource"`
	}
	fields struct {
		Defaults  map[string]any `json:"defaults"`
		Overrides []any          `json:"overrides"`
	}
)

// query is an expression and what its lines are called.
type query struct{ expr, legend string }

// chart is a panel without its place. An empty kind is a time series, of half the width.
type chart struct {
	title, about, unit, kind string
	queries                  []query
}

// row is a heading and the charts below it.
type row struct {
	title  string
	charts []chart
}

// dashboard is deploy/grafana/dashboards/headway.json.
func dashboard() ([]byte, error) {
	prometheus := &source{Type: "prometheus", UID: "${datasource}"}
	b := board{
		UID: "headway", Title: "Headway", Tags: []string{"headway"}, SchemaVersion: 39, Editable: true, Refresh: "15s",
		Time: span{From: "now-1h", To: "now"},
	}
	b.Templating.List = []variable{
		{Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus", Refresh: 1},
		{
			Name: "limit", Label: "Limit", Type: "query", Datasource: prometheus, Refresh: 2, IncludeAll: true, Multi: true,
			AllValue: ".*", Query: "label_values(headway_meter_capacity_tokens, limit)",
		},
	}
	id, y := 0, 0
	for _, r := range rows() {
		id++
		b.Panels = append(b.Panels, panel{ID: id, Type: "row", Title: r.title, GridPos: position{H: 1, W: 24, Y: y}})
		y++
		x, height := 0, 0
		for _, c := range r.charts {
			id++
			p := c.panel(id, prometheus)
			if x+p.GridPos.W > 24 {
				x, y = 0, y+height
			}
			p.GridPos.X, p.GridPos.Y = x, y
			x, height = x+p.GridPos.W, p.GridPos.H
			b.Panels = append(b.Panels, p)
		}
		y += height
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(b)
	return text.Bytes(), err
}

func (c chart) panel(id int, from *source) panel {
	p := panel{
		ID: id, Type: "timeseries", Title: c.title, Description: c.about, Datasource: from,
		GridPos:     position{H: 8, W: 12},
		FieldConfig: &fields{Defaults: map[string]any{"unit": c.unit, "min": 0}, Overrides: []any{}},
	}
	if c.kind != "" {
		p.Type, p.GridPos = c.kind, position{H: 4, W: 4}
	}
	for i, q := range c.queries {
		p.Targets = append(p.Targets, target{
			RefID: string(rune('A' + i)), Expr: q.expr, LegendFormat: q.legend, Datasource: from,
		})
	}
	return p
}
