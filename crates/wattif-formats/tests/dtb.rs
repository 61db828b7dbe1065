//! Devicetrees: self-written boards, and damage. Real ones are imported by `boards.rs` of the facade.

use std::fs;
use std::path::Path;
use wattif_formats::{dtb, platform_toml};

/// A board of the corpus.
fn blob(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/dtb");
    fs::read(folder.join(format!("{name}.dtb"))).unwrap()
}

fn messages(imported: &dtb::Imported) -> Vec<&str> {
    imported.diagnostics.iter().map(|d| d.message.as_str()).collect()
}

fn platform(toml: &str) -> wattif_model::platform::Platform {
    let parsed = platform_toml::parse(toml, &Default::default());
    parsed.platform.unwrap_or_else(|| panic!("{:?}\n{toml}", parsed.diagnostics))
}

#[test]
fn a_board() {
    let imported = dtb::import(&blob("board"), "board", None);
    let expected = [
        "CPUs that the kernel does not start, by their status, are left out, and the numbers of others go on: `cpu@102`",
        "CPUs 0-1: 1 operating points are for boost, which is off (turbo-mode); they were left out",
        "power domain `power-domain-cluster` of CPUs 2-3: `cluster-off` become states that the idle governor of each CPU chooses",
    ];
    assert_eq!(messages(&imported), expected);
    let p = platform(&imported.toml.unwrap());
    assert_eq!((p.nr_cpus(), p.domains.len(), p.clusters.len()), (4, 2, 2));
    // The binding's example: 578 at 850 MHz against 1024 at 1100 MHz.
    assert_eq!((p.cpus[0].capacity, p.cpus[2].capacity), (578 * 850 * 1024 / (1024 * 1100), 1024));
    // 100 µW/MHz/V² at 900 mV and 850 MHz.
    assert_eq!(p.domains[0].power.busy_uw[1], 100 * 900 * 900 * 850 / 1_000_000);
    assert_eq!(p.domains[0].opps.len(), 2, "a turbo point is off");
    assert_eq!(p.domains[1].power.busy_uw, [300_000, 900_000], "opp-microwatt goes first, of both supplies");
    let idle = &p.clusters[0].idle;
    assert_eq!(idle.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["WFI", "cpu-sleep", "cluster-sleep"]);
    assert_eq!((idle[1].advertised.exit_ns, idle[1].advertised.residency_ns), (350_000, 1_000_000));
    assert_eq!(
        (idle[2].advertised.exit_ns, idle[2].actual.exit_ns),
        (1_200_000, 900_000),
        "wakeup-latency-us goes first"
    );
    assert_eq!(p.cpus.iter().map(|c| c.llc).collect::<Vec<_>>(), [0, 0, 1, 1]);
}

/// The kernel reads them of CPUs that it comes by in cpu-map, and 32-bit Arm of all.
#[test]
fn capacities_by_the_cpu_map() {
    /// The board with other words of the same length.
    fn read(words: &[(&str, &str)]) -> (u32, String) {
        let mut blob = blob("board");
        for (old, new) in words {
            let old = old.as_bytes();
            let at: Vec<usize> = (0..blob.len() - old.len()).filter(|&i| blob[i..].starts_with(old)).collect();
            assert!(!at.is_empty() && old.len() == new.len());
            at.iter().for_each(|&i| blob[i..i + old.len()].copy_from_slice(new.as_bytes()));
        }
        let imported = dtb::import(&blob, "board", None);
        let said = messages(&imported).into_iter().find(|m| m.contains("(1024)")).unwrap_or_default().to_string();
        (platform(&imported.toml.unwrap()).cpus[0].capacity, said)
    }
    let own = 578 * 850 * 1024 / (1024 * 1100);
    assert_eq!(read(&[]), (own, String::new()));
    let equal = "all CPUs are taken as equal (1024), capacity-dmips-mhz is not used";
    let check = |words: &[(&str, &str)], why: &str| assert_eq!(read(words), (1024, format!("{why}: {equal}")));
    check(&[("cpu-map", "cpu-mop")], "there is no cpu-map, and the kernel reads the capacities of CPUs in it alone");
    let gap =
        |of: &str| format!("in cpu-map, where names are numbered without gaps, the kernel does not come by CPUs {of}");
    check(&[("cluster1", "cluster2")], &gap("2-3"));
    check(&[("core1", "core2")], &gap("1,3"));
    check(&[("cluster1", "clusters"), ("cluster0", "socket00")], &gap("0-3"));
    check(&[("cluster1", "socket00")], &gap("2-3"));
    let arm32 = [("arm,cortex-a53", "arm,cortex-a15"), ("arm,cortex-a72", "arm,cortex-a17"), ("cpu-map", "cpu-mop")];
    assert_eq!(read(&arm32), (own, String::new()));
    let flat = dtb::import(&blob("map"), "map", None);
    let why = format!("the kernel does not accept this cpu-map, as `core0` is in no cluster: {equal}");
    assert!(messages(&flat).contains(&why.as_str()), "{:?}", messages(&flat));
    assert_eq!(platform(&flat.toml.unwrap()).cpus[0].capacity, 1024);
}

/// `topology_parse_cpu_capacity` takes any number.
#[test]
fn a_capacity_of_nothing() {
    let mut blob = blob("board");
    let own: Vec<usize> = (0..blob.len() - 3).step_by(4).filter(|&i| blob[i..i + 4] == 578u32.to_be_bytes()).collect();
    assert_eq!(own.len(), 2);
    own.iter().for_each(|&i| blob[i..i + 4].fill(0));
    let imported = dtb::import(&blob, "board", None);
    let said = "CPUs 0-1: capacity-dmips-mhz is 0; the kernel takes it as it is, and its scheduler for a capacity of 1";
    assert!(messages(&imported).contains(&said), "{:?}", messages(&imported));
    let p = platform(&imported.toml.unwrap());
    assert_eq!(p.cpus.iter().map(|c| c.capacity).collect::<Vec<_>>(), [1, 1, 1024, 1024]);
}

/// By index, the CPU's own power domain goes first.
#[test]
fn idle_states_of_a_cpu_and_of_its_power_domain() {
    let p = platform(&dtb::import(&blob("map"), "map", None).toml.unwrap());
    let names = |c: usize| p.clusters[c].idle.iter().map(|s| s.name.as_str()).collect::<Vec<_>>();
    assert_eq!(names(0), ["WFI", "cpu-sleep", "cpu-off", "cpu-deep"]);
    assert_eq!(names(1), ["WFI", "cpu-sleep", "cpu-deep", "cpu-deep"]);
}

#[test]
fn operating_points_of_the_firmware() {
    let firmware = blob("firmware");
    let imported = dtb::import(&firmware, "firmware", None);
    assert!(imported.toml.is_none());
    let help = imported.diagnostics[0].help.clone().unwrap();
    assert!(help.contains("[[domain]]\ncpus = \"0-1\""), "{help}");
    let overlay =
        "[[domain]]\ncpus = \"0-1\"\nopps = [ { khz = 600_000, uv = 700_000 }, { khz = 1_800_000, uv = 1_000_000 } ]";
    let p = platform(&dtb::import(&firmware, "firmware", Some(overlay)).toml.unwrap());
    assert_eq!(p.domains[0].opps[1].khz, 1_800_000);
    assert_eq!(p.domains[0].power.busy_uw[1], 80 * 1000 * 1000 * 1800 / 1_000_000);
}

#[test]
fn choices_and_what_is_not_there() {
    let imported = dtb::import(&blob("choices"), "choices", None);
    let expected = [
        "CPUs 0-1: 1 operating points are for some revisions only (opp-supported-hw); all were taken",
        "CPUs 0-1: voltages depend on the speed bin; those of `opp-microvolt-L0` were taken",
        "CPUs 0-1: opp-microwatt of 1 operating points is not used, as the lowest has none: so does the kernel",
        "cpu-idle-states: no node has phandle 0x99; left out",
        "power domain `power-domain` of CPUs 0-1: `all-off` become states that the idle governor of each CPU chooses",
    ];
    assert_eq!(messages(&imported), expected);
    let toml = imported.toml.unwrap();
    assert!(toml.contains("transition_us = 300  # assumed") && toml.contains("transition_us: assumed"), "{toml}");
    let p = platform(&toml);
    assert_eq!(p.domains[0].power.busy_uw, [100 * 800 * 800 * 500 / 1_000_000, 100 * 900 * 900 * 1000 / 1_000_000]);
    let idle: Vec<&str> = p.clusters[0].idle.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(idle, ["WFI", "cpu-sleep", "all-off"], "of the power domain that is called psci");
}

/// What the devicetree has and nobody reads is named, and nothing says that it is not there.
#[test]
fn what_is_there_and_not_read() {
    let imported = dtb::import(&blob("costs"), "costs", None);
    let costs = &imported.diagnostics[0];
    let said = "sched-energy-costs, busy-cost-data, idle-cost-data (energy costs of Android's kernels) are present and not used";
    assert_eq!((costs.code, costs.message.as_str()), ("dtb::W03", said));
    let toml = imported.toml.unwrap();
    assert!(
        toml.contains("sched-energy-costs of the devicetree is not read") && !toml.contains("gives none"),
        "{toml}"
    );

    let imported = dtb::import(&blob("power"), "power", None);
    let expected = [
        "ibm,pstate-frequencies-mhz of ibm,opal/power-mgt is present and not used",
        "ibm,cpu-idle-state-names, ibm,cpu-idle-state-latencies-ns of ibm,opal/power-mgt are present and not used",
        "CPUs 0-7 (unknown): no operating points but those of ibm,pstate-frequencies-mhz, which is not read",
    ];
    assert_eq!(messages(&imported)[..3], expected);
    let overlay = "[[domain]]\ncpus = \"0-7\"\nopps = [ { khz = 2_166_000 }, { khz = 3_800_000 } ]";
    let toml = dtb::import(&blob("power"), "power", Some(overlay)).toml.unwrap();
    assert!(toml.contains("ibm,cpu-idle-state-latencies-ns is not read") && !toml.contains("names no idle"), "{toml}");
    let cores: Vec<_> = platform(&toml).cpus.iter().map(|c| c.core).collect();
    assert_eq!(cores, [0, 0, 0, 0, 1, 1, 1, 1]);
}

/// What is imported is a platform file that is read, whatever the blob says.
#[test]
fn a_power_that_no_cpu_has_is_left_out() {
    let mut absurd = blob("choices");
    let at = |blob: &[u8]| blob.windows(4).position(|w| w == 100u32.to_be_bytes());
    while let Some(at) = at(&absurd) {
        absurd[at..at + 4].fill(0xff);
    }
    let imported = dtb::import(&absurd, "choices", None);
    let said = imported.diagnostics.iter().find(|d| d.message.contains("is no power of a CPU")).unwrap();
    assert!(said.message.starts_with("CPUs 0-1: ") && said.message.ends_with("were left out"), "{said:?}");
    assert!(said.help.as_deref().unwrap().contains("dynamic-power-coefficient is 4294967295"), "{said:?}");
    let toml = imported.toml.unwrap();
    assert_eq!(platform(&toml).domains[0].opps.len(), 2);
    assert!(!toml.contains("uw = "), "{toml}");
}

#[test]
fn who_sleeps_together_is_told_by_power_domains() {
    let imported = dtb::import(&blob("domains"), "domains", None);
    let expected = [
        "CPUs 0-1 share a clock and differ in capacity: CPU 0 has 303, CPU 1 has 640; all were taken for 303",
        "power domain `power-domain-a` of CPUs 0-3: `cluster-off` become states that the idle governor of each CPU chooses",
        "power domain `power-domain-b` of CPUs 4-5: `mixed-off` left out, as the states of these CPUs differ, and those of a \
         cluster do not",
        "power domain `power-domain-system` of CPUs 0-5: `system-off` left out, as a platform has no level above its clusters",
        "CPUs 2-5: the lowest operating point has a power, others have none, and the kernel then computes nothing: no energy \
         is reported",
    ];
    assert_eq!(messages(&imported), expected);
    let p = platform(&imported.toml.unwrap());
    let names =
        |c: &wattif_model::platform::Cluster| c.idle.iter().map(|s| s.name.clone()).collect::<Vec<_>>().join(" ");
    let clusters: Vec<String> = p.clusters.iter().map(|c| format!("{}: {}", c.cpus, names(c))).collect();
    // Four CPUs of two clusters of cpu-map are switched off as one.
    assert_eq!(clusters, ["0-3: WFI cpu-sleep cluster-off", "4: WFI cpu-sleep", "5: WFI cpu-off"]);
    assert_eq!(p.clusters[0].idle[2].scope, wattif_model::platform::Scope::Cluster);
}

/// Two sockets of two clusters, a NUMA node each and no caches; CPUs that firmware has not started, and one that failed.
#[test]
fn sockets_nodes_and_clusters() {
    let imported = dtb::import(&blob("sockets"), "sockets", None);
    let expected = [
        "CPUs that the kernel does not start, by their status, are left out, and the numbers of others go on: `cpu@300`",
        "CPUs without the status `okay` are taken, as the kernel starts them: `cpu@202`, `cpu@203`",
    ];
    assert_eq!(messages(&imported)[..2], expected);
    let toml = imported.toml.unwrap();
    let p = platform(&toml);
    let each = |of: &dyn Fn(&wattif_model::platform::Cpu) -> u32| p.cpus.iter().map(of).collect::<Vec<_>>();
    let (halves, quarters) = ([0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 2, 2, 3, 3]);
    assert_eq!(each(&|c| c.package), halves, "{toml}");
    assert_eq!(each(&|c| c.node), halves);
    assert_eq!(each(&|c| c.llc), halves, "without caches the CPUs of a socket share one");
    assert_eq!(each(&|c| c.l2.unwrap()), quarters, "clusters of cpu-map are those of the scheduler");
}

#[test]
fn riscv_starts_what_is_available() {
    // A node for some CPUs only is none.
    let imported = dtb::import(&blob("riscv"), "riscv", None);
    let left =
        "CPUs that the kernel does not start, by their status, are left out, and the numbers of others go on: `cpu@0`";
    assert_eq!(messages(&imported)[..2], [left, "CPUs 1 have no numa-node-id: NUMA nodes left out"]);
    assert_eq!(platform(&imported.toml.unwrap()).nr_cpus(), 2);
}

#[test]
fn overlays() {
    let firmware = blob("firmware");
    let apart =
        "[[domain]]\ncpus = \"1\"\nopps = [ { khz = 9, uw = 3 } ]\n[[domain]]\ncpus = 0\nopps = [ { khz = 8 } ]\n";
    let imported = dtb::import(&firmware, "firmware", Some(apart));
    assert!(imported.overlay.is_empty(), "{:?}", imported.overlay);
    let p = platform(&imported.toml.unwrap());
    assert_eq!(p.domains.iter().map(|d| d.opps[0].khz).collect::<Vec<_>>(), [8, 9], "each its own");
    // The mistake, and where the place of it begins.
    let check = |text: &str, message: &str, at: &str| {
        let imported = dtb::import(&firmware, "firmware", Some(text));
        let said: Vec<_> = imported.overlay.iter().map(|d| (d.message.as_str(), &text[d.span.start..])).collect();
        let found = said.iter().any(|(m, rest)| m.contains(message) && rest.starts_with(at));
        assert!(imported.toml.is_none() && found, "{text}: {said:?}");
    };
    let opps = "opps = [ { khz = 5 } ]";
    check(&format!("[[domain]]\ncpus = \"0-1\"\n{opps}\n[[domian]]\nx = 1"), "unknown key `domian`", "domian");
    check(&format!("[[domain]]\ncpus = \"0-1\"\ncapcity = 3\n{opps}"), "unknown key `capcity`", "capcity");
    check("[[domain]]\ncpus = \"0-1\"\nopps = [ { kHz = 5 } ]", "unknown key `kHz`", "kHz");
    check(&format!("[[domain]]\ncpus = \"0-2\"\n{opps}"), "there are no CPUs 0-2", "[[domain]]");
    check(&format!("[[domain]]\ncpus = [\"0\", \"0-1\"]\n{opps}"), "CPU 0 is in two", "[[domain]]");
    check("[[domain]]\ncpus = 0\nopps = [ { khz = 5 }, { khz = 6, uw = 1 } ]", "`uw` belongs in every", "{ khz = 6");
    check("[[domain]]\ncpus = 0\nopps = [ { khz = 5 }, { khz = 5 } ]", "ascending order", "{ khz = 5 } ]");
    check("[[domain]]\ncpus = 0", "at least one operating point", "[[domain]]");
    check("[costs]\nwakeup_ns = 5", "unknown key `costs`", "");
    check("x = [", "not TOML", "");
    let two = dtb::import(&blob("board"), "board", Some(&format!("[[domain]]\ncpus = \"0-3\"\n{opps}")));
    assert_eq!(two.overlay[0].message, "CPUs 0-3 are not one clock");
    assert_eq!(two.overlay[0].help.as_deref(), Some("the clocks of the devicetree: cpus = [\"0-1\", \"2-3\"]"));
}

#[test]
fn a_board_with_oddities() {
    let imported = dtb::import(&blob("odd"), "odd", None);
    let expected = [
        "CPUs 0 are more than once in cpu-map: the first place counts",
        "CPUs 1 are not in cpu-map: taken as cores of the first cluster",
        "CPUs 2-3: 1 operating points without a frequency were left out",
        "in cpu-map, where names are numbered without gaps, the kernel does not come by CPUs 1: all CPUs are taken as equal \
         (1024), capacity-dmips-mhz is not used",
        "1 idle states without min-residency-us, or without latencies, were left out: `cpu-sleep`",
    ];
    assert_eq!(messages(&imported), expected);
    let p = platform(&imported.toml.unwrap());
    let tops: Vec<u32> = p.domains.iter().map(|d| d.opps.last().unwrap().khz).collect();
    assert_eq!(tops, [1_400_000, 1_800_000, 1_000_000], "version 2 goes first; version 1 is a clock of its own");
    assert_eq!(p.domains[0].opps.len(), 2);
    let capacity = |c: usize| (p.cpus[c].capacity, p.cpus[c].domain.0);
    let expected = [(1024, 0), (1024, 1), (1024, 2)];
    assert_eq!([capacity(1), capacity(3), capacity(5)], expected);
}

#[test]
fn a_board_of_scmi() {
    let scmi = blob("scmi");
    let imported = dtb::import(&scmi, "scmi", None);
    let expected = [
        "CPUs that the kernel does not start, by their status, are left out, and the numbers of others go on: `cpu@200`",
        "CPUs 0-1 (oryon): no operating points in the devicetree (the firmware gives them)",
        "CPUs 2-3 (oryon): no operating points in the devicetree (the firmware gives them)",
        "idle states `cpu-off`, `cpu-sleep` are not in the order of min-residency-us: kept as the kernel counts them in traces",
    ];
    assert!(expected.iter().all(|e| messages(&imported).contains(e)), "{:?}", messages(&imported));
    let told = |cpus: &str| imported.diagnostics.iter().any(|d| d.help.iter().any(|h| h.contains(cpus)));
    assert!(told("cpus = \"0-1\"") && told("cpus = \"2-3\""), "the overlay that is asked for");
    let overlay =
        "[[domain]]\ncpus = \"0-1\"\nopps = [ { khz = 9 } ]\n[[domain]]\ncpus = \"2-3\"\nopps = [ { khz = 8 } ]\n";
    let p = platform(&dtb::import(&scmi, "scmi", Some(overlay)).toml.unwrap());
    let idle: Vec<_> =
        p.clusters[0].idle.iter().map(|s| (s.name.as_str(), s.advertised.exit_ns, s.advertised.residency_ns)).collect();
    let wakeup_latency_alone = ("cpu-off", 900_000, 3_000_000);
    assert_eq!(idle, [("WFI", 1_000, 1_000), wakeup_latency_alone, ("cpu-sleep", 350_000, 1_000_000)]);
}

#[test]
fn damage_is_survived() {
    ["board", "sockets"].map(blob).into_iter().for_each(survives);
}

fn survives(blob: Vec<u8>) {
    for n in 0..blob.len() {
        std::hint::black_box(dtb::import(&blob[..n], "x", None));
    }
    let mut changed = blob.clone();
    for i in 0..blob.len() {
        for value in [0, 0xff, blob[i] ^ 0x80, blob[i].wrapping_add(1)] {
            changed[i] = value;
            let imported = dtb::import(&changed, "x", None);
            assert_eq!(imported.toml.is_none(), imported.diagnostics.iter().any(|d| d.is_error()));
            imported.toml.iter().for_each(|toml| drop(platform(toml)));
        }
        changed[i] = blob[i];
    }
}

/// A devicetree as it is made.
#[derive(Default)]
struct Tree {
    structure: Vec<u32>,
    names: Vec<u8>,
}

impl Tree {
    fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
        bytes.chunks(4).map(|word| {
            word.iter().rev().enumerate().fold(0, |all, (i, byte)| all | u32::from(*byte) << (8 * (i + 4 - word.len())))
        })
    }
    fn node(mut self, name: &str, inside: impl FnOnce(Tree) -> Tree) -> Tree {
        self.structure.push(1);
        self.structure.extend(Tree::words(format!("{name}\0").as_bytes()));
        self = inside(self);
        self.structure.push(2);
        self
    }
    fn bytes(mut self, name: &str, bytes: &[u8]) -> Tree {
        self.structure.extend([3, bytes.len() as u32, self.names.len() as u32]);
        self.structure.extend(Tree::words(bytes));
        self.names.extend(format!("{name}\0").as_bytes());
        self
    }
    fn cells(self, name: &str, cells: &[u32]) -> Tree {
        self.bytes(name, &cells.iter().flat_map(|cell| cell.to_be_bytes()).collect::<Vec<_>>())
    }
    fn blob(mut self) -> Vec<u8> {
        self.structure.push(9);
        let (structure, names) = (4 * self.structure.len() as u32, self.names.len() as u32);
        let begin = 40 + 16;
        let header =
            [0xd00d_feed, begin + structure + names, begin, begin + structure, 40, 17, 16, 0, names, structure];
        let words = header.into_iter().chain([0; 4]).chain(self.structure);
        words.flat_map(u32::to_be_bytes).chain(self.names).collect()
    }
}

/// A platform has so many operating points at most; the first ones are taken.
#[test]
fn too_many_operating_points() {
    const HZ: u32 = 1_000_000;
    let cpu = |t: Tree| t.bytes("device_type", b"cpu\0").cells("reg", &[0]);
    let v1 = |n: u32| {
        let pairs: Vec<u32> = (1..=n).flat_map(|i| [1_000 * i, 900_000]).collect();
        Tree::default().node("", |t| t.node("cpus", |t| t.node("cpu@0", |t| cpu(t).cells("operating-points", &pairs))))
    };
    let v2 = |n: u32| {
        let point = |t: Tree, i: u32| t.node(&format!("opp-{i}"), |t| t.cells("opp-hz", &[0, i * HZ]));
        Tree::default().node("", |t| {
            let t = t.node("cpus", |t| t.node("cpu@0", |t| cpu(t).cells("operating-points-v2", &[7])));
            t.node("opp-table", |t| (1..=n).fold(t.cells("phandle", &[7]), point))
        })
    };
    for (made, name) in [(&v1 as &dyn Fn(u32) -> Tree, "cpu@0"), (&v2, "opp-table")] {
        let with = |n: u32| {
            let imported = dtb::import(&made(n).blob(), "x", None);
            let told = imported.diagnostics.iter().find(|d| d.message.contains("a platform has 256 at most"));
            let top = platform(&imported.toml.clone().unwrap()).domains[0].opps.last().unwrap().khz;
            (top, told.map(|d| (d.code, d.message.clone())))
        };
        assert_eq!(with(256), (256_000, None));
        let message =
            format!("CPUs 0: `{name}` has 300 operating points; a platform has 256 at most, the last 44 were left out");
        assert_eq!(with(300), (256_000, Some(("dtb::W02", message))));
    }
}
