package ocsf

// Event is one OCSF event. Field names are the schema's: https://schema.ocsf.io/1.8.0/classes/network_activity.
type Event struct {
	ClassUID     int    `json:"class_uid"`
	ClassName    string `json:"class_name"`
	CategoryUID  int    `json:"category_uid"`
	CategoryName string `json:"category_name"`
	ActivityID   int    `json:"activity_id"`
	ActivityName string `json:"activity_name"`
	TypeUID      int    `json:"type_uid"` // class_uid * 100 + activity_id
	TypeName     string `json:"type_name"`
	SeverityID   int    `json:"severity_id"`
	Severity     string `json:"severity"`
	Time         int64  `json:"time"` // milliseconds since 1970
	EndTime      int64  `json:"end_time,omitempty"`
	Duration     int64  `json:"duration,omitempty"` // milliseconds
	Message      string `json:"message,omitempty"`
	Count        uint64 `json:"count,omitempty"`

	ActionID      int           `json:"action_id,omitempty"`
	Action        string        `json:"action,omitempty"`
	DispositionID int           `json:"disposition_id,omitempty"`
	Disposition   string        `json:"disposition,omitempty"`
	FirewallRule  *FirewallRule `json:"firewall_rule,omitempty"`
	Policy        *Policy       `json:"policy,omitempty"`

	Metadata       Metadata          `json:"metadata"`
	Actor          *Actor            `json:"actor,omitempty"`
	SrcEndpoint    *Endpoint         `json:"src_endpoint,omitempty"`
	DstEndpoint    *Endpoint         `json:"dst_endpoint,omitempty"`
	ProxyEndpoint  *Endpoint         `json:"proxy_endpoint,omitempty"`
	ConnectionInfo *ConnectionInfo   `json:"connection_info,omitempty"`
	Traffic        *Traffic          `json:"traffic,omitempty"`
	TLS            *TLS              `json:"tls,omitempty"`
	HTTPRequest    *HTTPRequest      `json:"http_request,omitempty"`
	HTTPResponse   *HTTPResponse     `json:"http_response,omitempty"`
	Query          *DNSQuery         `json:"query,omitempty"`
	API            *API              `json:"api,omitempty"`
	Unmapped       map[string]string `json:"unmapped,omitempty"`
}

// Metadata says who made the event and which record it is.
type Metadata struct {
	Version  string   `json:"version"`
	Product  Product  `json:"product"`
	Profiles []string `json:"profiles"`
	UID      string   `json:"uid"`      // proxy/epoch/seq
	Sequence uint64   `json:"sequence"` // seq
}

// Product is Sallyport.
type Product struct {
	Name       string `json:"name"`
	VendorName string `json:"vendor_name"`
}

// Actor is the workload.
type Actor struct {
	User User `json:"user"`
}

// User is a workload's identity: the SPIFFE id, and namespace/service account.
type User struct {
	UID    string `json:"uid,omitempty"`
	Name   string `json:"name,omitempty"`
	Type   string `json:"type"`
	TypeID int    `json:"type_id"` // 4: Service, 1: User
}

// API is what somebody did, and by what.
type API struct {
	Operation string  `json:"operation"`
	Service   Service `json:"service"`
}

// Service is the page, or the command.
type Service struct {
	Name string `json:"name"`
}

// Endpoint is an end of the connection, or the proxy between.
type Endpoint struct {
	Hostname string `json:"hostname,omitempty"`
	IP       string `json:"ip,omitempty"`
	Port     uint32 `json:"port,omitempty"`
	Name     string `json:"name,omitempty"`
	UID      string `json:"uid,omitempty"`
}

// FirewallRule is what decided.
type FirewallRule struct {
	Name    string `json:"name,omitempty"`    // namespace/name of the object
	UID     string `json:"uid,omitempty"`     // the rule in it
	Version string `json:"version,omitempty"` // the object's revision
	Type    string `json:"type,omitempty"`    // its kind
	Desc    string `json:"desc,omitempty"`    // the reason
}

// Policy is the EgressPolicy or AuthorizationPolicy whose rule denied, allowed, or would deny.
type Policy struct {
	UID       string `json:"uid"`               // its namespace/name
	Name      string `json:"name"`              // its name
	Version   string `json:"version,omitempty"` // its revision
	IsApplied bool   `json:"is_applied"`        // false of one that is observed only
}

// ConnectionInfo gives protocol and direction.
type ConnectionInfo struct {
	ProtocolName string `json:"protocol_name"`
	ProtocolNum  int    `json:"protocol_num"`
	Direction    string `json:"direction"`
	DirectionID  int    `json:"direction_id"` // 1: Inbound, 2: Outbound, 3: Lateral
}

// Traffic counts bytes as the workload sees them: in is what it got.
type Traffic struct {
	Bytes    uint64 `json:"bytes"`
	BytesIn  uint64 `json:"bytes_in"`
	BytesOut uint64 `json:"bytes_out"`
}

// TLS holds the name in the ClientHello. The schema wants a version; it is not known here.
type TLS struct {
	SNI     string `json:"sni"`
	Version string `json:"version"`
}

// HTTPRequest is the request as the proxy saw it.
type HTTPRequest struct {
	Method string `json:"http_method,omitempty"`
	URL    URL    `json:"url"`
}

// URL is split as the schema wants it.
type URL struct {
	String   string `json:"url_string,omitempty"` // where there is no path
	Scheme   string `json:"scheme,omitempty"`
	Hostname string `json:"hostname,omitempty"`
	Port     uint32 `json:"port,omitempty"`
	Path     string `json:"path,omitempty"`
	Query    string `json:"query_string,omitempty"`
}

// HTTPResponse holds the status sent to the client.
type HTTPResponse struct {
	Code uint32 `json:"code"`
}

// DNSQuery is the name that was asked for.
type DNSQuery struct {
	Hostname string `json:"hostname"`
}
