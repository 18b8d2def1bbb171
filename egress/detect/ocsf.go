package detect

import (
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/ocsf"
)

// Event is an OCSF Detection Finding (class 2004). Field names are the schema's: https://schema.ocsf.io/1.8.0/classes/detection_finding.
type Event struct {
	ClassUID     int           `json:"class_uid"`
	ClassName    string        `json:"class_name"`
	CategoryUID  int           `json:"category_uid"`
	CategoryName string        `json:"category_name"`
	ActivityID   int           `json:"activity_id"`
	ActivityName string        `json:"activity_name"`
	TypeUID      int           `json:"type_uid"`
	TypeName     string        `json:"type_name"`
	SeverityID   int           `json:"severity_id"`
	Severity     string        `json:"severity"`
	StatusID     int           `json:"status_id"`
	Status       string        `json:"status"`
	Time         int64         `json:"time"` // milliseconds since 1970, like all others
	StartTime    int64         `json:"start_time"`
	EndTime      int64         `json:"end_time"`
	Count        uint64        `json:"count"`
	Message      string        `json:"message"`
	Confidence   int           `json:"confidence_score"` // of 100
	Metadata     eventMetadata `json:"metadata"`
	FindingInfo  findingInfo   `json:"finding_info"`
	Evidences    []evidence    `json:"evidences"`
}

type eventMetadata struct {
	Version string       `json:"version"`
	Product ocsf.Product `json:"product"`
	UID     string       `json:"uid"`
}

type findingInfo struct {
	UID           string   `json:"uid"`
	Title         string   `json:"title"`
	Types         []string `json:"types"`
	Analytic      analytic `json:"analytic"`
	Attacks       []attack `json:"attacks,omitempty"`
	FirstSeenTime int64    `json:"first_seen_time"`
	LastSeenTime  int64    `json:"last_seen_time"`
	CreatedTime   int64    `json:"created_time"`
}

type analytic struct {
	UID    string `json:"uid"`
	Name   string `json:"name"`
	TypeID int    `json:"type_id"` // 1: Rule
	Type   string `json:"type"`
}

type attack struct {
	Technique    *technique `json:"technique,omitempty"`
	SubTechnique *technique `json:"sub_technique,omitempty"`
	Tactic       *technique `json:"tactic,omitempty"`
}

type technique struct {
	UID string `json:"uid"`
}

type evidence struct {
	Actor       *ocsf.Actor    `json:"actor,omitempty"`
	DstEndpoint *ocsf.Endpoint `json:"dst_endpoint,omitempty"`
	Data        map[string]any `json:"data"`
}

// OCSF writes the finding as an event that was made at a time.
func (f *Finding) OCSF(at time.Time) Event {
	e := Event{
		ClassUID: 2004, ClassName: "Detection Finding", CategoryUID: 2, CategoryName: "Findings",
		ActivityID: 1, ActivityName: "Create", TypeUID: 200401, TypeName: "Detection Finding: Create",
		SeverityID: int(f.Severity), Severity: capital(f.Severity.String()), StatusID: 1, Status: "New",
		Time: at.UnixMilli(), StartTime: f.First.UnixMilli(), EndTime: f.Last.UnixMilli(), Count: f.Count, Message: f.Sentence(),
		Confidence: int(100 * min(max(f.Score, 0), 1)),
		Metadata:   eventMetadata{Version: ocsf.SchemaVersion, Product: ocsf.Product{Name: "Sallyport", VendorName: "Sallyport"}, UID: f.ID},
		FindingInfo: findingInfo{
			UID: f.ID, Title: f.Title, Types: []string{f.Detection}, Analytic: analytic{UID: f.Detection, Name: f.Title, TypeID: 1, Type: "Rule"},
			FirstSeenTime: f.First.UnixMilli(), LastSeenTime: f.Last.UnixMilli(), CreatedTime: at.UnixMilli(),
		},
	}
	for _, id := range f.Attack {
		e.FindingInfo.Attacks = append(e.FindingInfo.Attacks, attackOf(id))
	}
	proof := evidence{Data: f.Evidence}
	if who := f.Who(); who != "" {
		proof.Actor = &ocsf.Actor{User: ocsf.User{Name: who, Type: "Service", TypeID: 4}}
	}
	if f.Host != "" {
		proof.DstEndpoint = &ocsf.Endpoint{Hostname: f.Host, Port: f.Port}
	}
	e.Evidences = []evidence{proof}
	return e
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// attackOf tells tactics, techniques and their parts apart.
func attackOf(id string) attack {
	base, _, part := strings.Cut(id, ".")
	switch {
	case strings.HasPrefix(id, "TA"):
		return attack{Tactic: &technique{id}}
	case part:
		return attack{Technique: &technique{base}, SubTechnique: &technique{id}}
	}
	return attack{Technique: &technique{id}}
}
