package ondemand

// A sidecar's Envoy may hold only the rows (virtual hosts) that its pod uses: its agent has all of them on disk, and gives
// them when they are used (docs/adr/0035-fetch-on-use.md). What both ends must write alike of it is here.
const (
	// FetchMetadata is the key of the node metadata by which an agent says that it can do that: OnUse or All where that was chosen for
	// its workload, and FetchAsMesh where the mesh's settings are to say.
	FetchMetadata = "SALLYPORT_FETCH"
	// KeepMetadata is the key, below "sallyport" in the filter metadata of a route table, that says that the table's rows are given when
	// they are used, and for how many seconds they stay when they are not used any more.
	KeepMetadata = "fetch_keep"
	// ByNameMetadata is the key beside it that says that an agent which can asks for them by name, and knows by the digest (xds/digest) which there are.
	ByNameMetadata = "fetch_by_name"
	// EchoMetadata is the key beside that which says that the control plane answers to an Echo.
	EchoMetadata = "fetch_echo"
	// Echo begins a name that no row has. Who asks for all rows, and for such a name beside them, is told in the answer to that question, and in no earlier one, that the
	// name is gone: so it knows that it has all.
	Echo = "echo/"
	// NamedMetadata is the key of the node metadata by which an agent says that it can.
	NamedMetadata = "SALLYPORT_FETCH_BY_NAME"
	// ExitMetadata is the key of the node metadata by which the agent of a gateway says that it answers Envoy's questions about rows. (That a router's agent knows FetchMetadata says nothing:
	// older ones did.)
	ExitMetadata = "SALLYPORT_FETCH_EXIT"
	// FirstRow is the host of the row that every table has, and that Envoy is always given: it leads nowhere.
	FirstRow = "nobody.invalid"
)

// What FetchMetadata may say.
const (
	OnUse       = "onUse"
	All         = "all"
	FetchAsMesh = "mesh"
)

// What Envoy's question says (envoy.service.auth.v3) when a name or an address comes that none of its rows is for.
const (
	// FetchTable is the context extension that names the table, of requests, and the header, of questions about connections: there with
	// TablePrefix before it.
	FetchTable  = "table"
	TableHeader = "x-sallyport-table"
	TablePrefix = "decide-"
	// FetchedHeader is there when the rows that something may be for have been fetched.
	FetchedHeader = "x-sallyport-fetched"
	ToHeader      = "x-sallyport-to"    // the address that the client connected to
	RangeHeader   = "x-sallyport-range" // the owner of the range that it is in, "host:port"
	// FetchAuthority is the context extension of a gateway's questions: rows are found by the whole authority, "host:port".
	FetchAuthority = "authority"
	// FetchTwice is the context extension that says that what came cannot go on when its row is there, but has to come again.
	FetchTwice  = "twice"
	FetchClosed = "closed" // the context extension with what is answered to a question that has to be closed, in base64
)
