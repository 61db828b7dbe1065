#!/usr/bin/env python3
"""decode_perfetto.py TRACE: decodes a Perfetto trace with the published protobuf definitions (PyPI: perfetto) and prints
what it holds, one `name count` a line. Fails when anything in it is unknown to the definitions."""

import sys
from collections import Counter

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb


def no_unknown(message, path):
    """Every field of every message is one of the definitions' own."""
    assert not len(UnknownFields(message)), f"unknown fields in {path}"
    for field, value in message.ListFields():
        if field.type != field.TYPE_MESSAGE:
            continue
        for one in value if field.is_repeated else [value]:
            no_unknown(one, f"{path}.{field.name}")


try:
    from google.protobuf.unknown_fields import UnknownFieldSet as UnknownFields
except ImportError:  # protobuf before 4.21
    UnknownFields = lambda message: message.UnknownFields()  # noqa: E731


def matched(events, track):
    """The file holds a slice's begin and end together. Readers sort a track's events by time and let an end close what
    began last: this must be the same slice."""
    wrote = sorted((begin[0], end[0]) for begin, end in zip(events[::2], events[1::2]))
    stack, shown = [], []
    for at, begins in sorted(events, key=lambda event: event[0]):
        if begins:
            stack.append(at)
        else:
            shown.append((stack.pop(), at))
    assert not stack and sorted(shown) == wrote, f"slices of {track!r} overlap"


def main(path):
    with open(path, "rb") as file:
        trace = pb.Trace.FromString(file.read())
    counts = Counter()
    names, annotations, tracks, begun, slices = {}, {}, {}, set(), {}
    for packet in trace.packet:
        no_unknown(packet, "packet")
        for entry in packet.interned_data.event_names:
            names[entry.iid] = entry.name
        for entry in packet.interned_data.debug_annotation_names:
            annotations[entry.iid] = entry.name
        counts["threads"] += len(packet.process_tree.threads)
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor.name
        if packet.HasField("track_event"):
            event = packet.track_event
            assert event.track_uuid in tracks, "an event on a track that was not announced"
            kind = event.Type.Name(event.type)
            if kind == "TYPE_INSTANT":
                args = {annotations[a.name_iid]: a for a in event.debug_annotations}
                assert args, "a decision without inputs"
                counts["decision " + names[event.name_iid]] += 1
                counts["weighed"] += args["weighed"].string_value.count("cpu") if "weighed" in args else 0
            else:
                counts[kind] += 1
                if kind in ("TYPE_SLICE_BEGIN", "TYPE_SLICE_END"):
                    slices.setdefault(event.track_uuid, []).append((packet.timestamp, kind == "TYPE_SLICE_BEGIN"))
        bundle = packet.ftrace_events
        for event in bundle.event:
            counts[event.WhichOneof("event")] += 1
            if event.HasField("sched_switch"):
                begun.add(bundle.cpu)
        compact = bundle.compact_sched
        switches = len(compact.switch_timestamp)
        assert not switches or bundle.cpu in begun, "a compact switch without a predecessor"
        for column in ("switch_prev_state", "switch_next_pid", "switch_next_prio", "switch_next_comm_index"):
            assert len(getattr(compact, column)) == switches, column
        for column in ("waking_pid", "waking_target_cpu", "waking_prio", "waking_comm_index", "waking_common_flags"):
            assert len(getattr(compact, column)) == len(compact.waking_timestamp), column
        indices = list(compact.switch_next_comm_index) + list(compact.waking_comm_index)
        assert all(i < len(compact.intern_table) for i in indices)
        counts["sched_switch"] += switches
        counts["sched_waking"] += len(compact.waking_timestamp)
    for uuid, events in slices.items():
        matched(events, tracks[uuid])
    for name, count in sorted(counts.items()):
        print(name, count)


if __name__ == "__main__":
    main(sys.argv[1])
