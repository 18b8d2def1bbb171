package bootstrap

// What a proxy may take, and what it does when that runs short: docs/adr/0016-bounded.md.
const (
	// defaultConnections is Options.MaxConnections where nobody says.
	defaultConnections = 100_000

	// internalBuffer is how much, in KiB, a connection to an internal listener holds in each direction: the half that a
	// socket's kernel buffer would be.
	internalBuffer = 64

	// releaseEach is how much freed memory, in bytes, Envoy gives back to the kernel in each second.
	releaseEach = 16 << 20

	// EasyHeap is how much, in bytes, the heap may hold before Envoy's allocator gives free memory back at any price, which is
	// breaking huge pages. Below it, and without it, most of what a burst took stays for minutes. The allocator looks at it when
	// it needs pages; whoever supervises Envoy sees to it that it does.
	EasyHeap = 48 << 20

	// keptFree is how much freed memory, in bytes, Envoy may keep for what comes next.
	keptFree = 8 << 20

	// trackedFrom is the exponent of the size, in bytes, from which a stream is one of those that hold much: 64 KiB.
	// Envoy sorts them into eight classes, each twice the one before, and resets the largest first.
	trackedFrom = 16
)

// The parts of a heap at which something is done. What hurts nobody comes first, then what takes most, then what is new.
const (
	shortenFrom, shortenAt = 0.75, 0.95 // idle connections and streams, and handshakes, get less and less time
	shrinkAt               = 0.80
	resetFrom, resetAt     = 0.85, 0.97 // the streams that hold most memory are reset
	closeIdleAt            = 0.90
	refuseRequestsAt       = 0.95
	refuseConnectionsAt    = 0.98
)

// stillStream is how long a stream in which nothing moves may stay in the end. What the heads of requests take is in no buffer, so nobody resets those
// that hold most: a client that sends large ones, and then no body, could have everybody else refused for as long as streams may rest.
const stillStream = "10s"

const (
	heapMonitor       = "envoy.resource_monitors.fixed_heap"
	connectionMonitor = "envoy.resource_monitors.global_downstream_max_connections"
	refusingMonitor   = "envoy.resource_monitors.injected_resource"
	scarceMonitor     = "sallyport.resource_monitors.places" // a second one of that type, which its configuration says
)

// heapOf is what Envoy's heap may have of a container's memory, in bytes: the agent lives there too, and what Envoy has
// beside its heap.
func heapOf(memory uint64) uint64 {
	rest := min(max(memory/4, 48<<20), 256<<20)
	return max(memory-min(rest, memory), 32<<20)
}

// overload caps what downstream may open, and sheds load when memory runs short. The statistics and admin listeners are
// not counted: they are needed most when a cap is reached.
func overload(o Options) object {
	most := o.MaxConnections
	if most == 0 {
		most = defaultConnections
	}
	monitors := list{object{
		"name": connectionMonitor,
		"typed_config": object{
			"@type":                             extensions + "resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
			"max_active_downstream_connections": most,
		},
	}}
	out := object{"refresh_interval": "0.25s"}
	var actions list
	if o.Refusing != "" {
		monitors = append(monitors, injected(refusingMonitor, o.Refusing))
	}
	if o.Scarce != "" {
		monitors = append(monitors, injected(scarceMonitor, o.Scarce))
	}
	if o.MemoryLimit > 0 {
		monitors = append(monitors, object{
			"name": heapMonitor,
			"typed_config": object{
				"@type":               extensions + "resource_monitors.fixed_heap.v3.FixedHeapConfig",
				"max_heap_size_bytes": heapOf(o.MemoryLimit),
			},
		})
		actions = heapActions()
		out["buffer_factory_config"] = object{"minimum_account_to_track_power_of_two": trackedFrom}
	}
	if o.Refusing != "" {
		actions = withRefusal(actions)
	}
	if o.Scarce != "" {
		actions = withScarcity(actions)
	}
	if len(actions) > 0 {
		out["actions"] = actions
	}
	out["resource_monitors"] = monitors
	return out
}

// injected is a monitor of a file.
func injected(name, file string) object {
	return object{
		"name": name,
		"typed_config": object{
			"@type":    extensions + "resource_monitors.injected_resource.v3.InjectedResourceConfig",
			"filename": file,
		},
	}
}

// withScarcity adds that what rests gets less time by the agent's word, too.
func withScarcity(actions list) list {
	told := scaled(0, 1)
	told["name"] = scarceMonitor
	for _, a := range actions {
		if a := a.(object); a["name"] == reduceTimeouts {
			a["triggers"] = append(a["triggers"].(list), told)
			return actions
		}
	}
	return append(actions, object{"name": reduceTimeouts, "triggers": list{told}, "typed_config": shorterTimes()})
}

const reduceTimeouts = "envoy.overload_actions.reduce_timeouts"

// shorterTimes is how little time there is in the end.
func shorterTimes() object {
	return object{
		"@type": "type.googleapis.com/envoy.config.overload.v3.ScaleTimersOverloadActionConfig",
		"timer_scale_factors": list{
			object{"timer": "HTTP_DOWNSTREAM_CONNECTION_IDLE", "min_timeout": "1s"},
			object{"timer": "HTTP_DOWNSTREAM_STREAM_IDLE", "min_timeout": stillStream},
			object{"timer": "TRANSPORT_SOCKET_CONNECT", "min_timeout": "1s"},
		},
	}
}

// withRefusal adds to what is done when the heap is full that it is done on the agent's word, too: requests are answered 503, their connections
// closed behind the answer, and new ones at once.
func withRefusal(actions list) list {
	told := at(0.5)
	told["name"] = refusingMonitor
	for _, name := range []string{"disable_http_keepalive", "stop_accepting_requests", "reject_incoming_connections"} {
		name = "envoy.overload_actions." + name
		found := false
		for _, a := range actions {
			if a := a.(object); a["name"] == name {
				a["triggers"] = append(a["triggers"].(list), told)
				found = true
			}
		}
		if !found {
			actions = append(actions, object{"name": name, "triggers": list{told}})
		}
	}
	return actions
}

// heapActions are what Envoy does as its heap fills.
func heapActions() list {
	return list{
		action("reduce_timeouts", scaled(shortenFrom, shortenAt), shorterTimes()),
		action("shrink_heap", at(shrinkAt), object{
			"@type":          "type.googleapis.com/envoy.config.overload.v3.ShrinkHeapConfig",
			"timer_interval": "1s", "max_unfreed_memory_bytes": keptFree,
		}),
		action("reset_high_memory_stream", scaled(resetFrom, resetAt), nil),
		action("disable_http_keepalive", at(closeIdleAt), nil),
		action("stop_accepting_requests", at(refuseRequestsAt), nil),
		action("reject_incoming_connections", at(refuseConnectionsAt), nil),
	}
}

func action(name string, trigger, config object) object {
	trigger["name"] = heapMonitor
	out := object{"name": "envoy.overload_actions." + name, "triggers": list{trigger}}
	if config != nil {
		out["typed_config"] = config
	}
	return out
}

func at(part float64) object { return object{"threshold": object{"value": part}} }

func scaled(from, to float64) object {
	return object{"scaled": object{"scaling_threshold": from, "saturation_threshold": to}}
}

// allocator gives freed memory back. Without it what a burst took stays Envoy's for good.
func allocator() object {
	return object{
		"bytes_to_release": releaseEach, "memory_release_interval": "1s", "max_unfreed_memory_bytes": keptFree,
		"soft_memory_limit_bytes": EasyHeap,
	}
}
