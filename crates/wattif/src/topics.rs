//! What `wattif explain` knows besides policies and models: values and switches of `cpu_util`, and parts of policies by the
//! kernel's names for them.

const SCHEMES: &str = include_str!("../../../docs/concepts/raising-utilisation.md");

/// Parts of policies: the kernel's name, the policy on whose page they are, and what they are.
const PARTS: [(&str, &str, &str); 8] = [
    (
        "wake_cap",
        "select_task_rq_fair",
        "CPUs differ in capacity, and the woken task may not fit the smaller of its waker's and its previous one: the fast path near \
         these two is not taken.",
    ),
    (
        "misfit",
        "load_balance",
        "A running task that does not fit its CPU; noted when it is picked and at the tick, and reason enough for a bigger CPU to \
         pull it.",
    ),
    (
        "overutilized",
        "eas",
        "The utilisation of some CPU does not fit it, a fifth of its capacity being kept free: energy-aware placement steps aside \
         and load balancing decides, until a pass over all CPUs finds none.",
    ),
    (
        "energy_diff",
        "find_best_target",
        "Energy with the task on the CPU found, less that on its previous one: it moves where this is below zero, by 1/64 or more, \
         or where a boost buys capacity with it.",
    ),
    ("find_energy_efficient_cpu", "eas", "The search for the CPU on which a woken task costs the least energy."),
    (
        "abs",
        "cpu_util",
        "Utilisation is raised to `runnable_avg` itself, as kernels since 6.5 do: `cpu_util.boost` is `h1` or, with the arithmetic of \
         2026, `h2`. `wattif explain h2` says what that fixes and costs.",
    ),
    (
        "pelt2",
        "pelt",
        "Signals rise and fall twice as fast, instead of being raised by waiting: `--set pelt.half_life_ms=16`.",
    ),
    (
        "pelt4",
        "pelt",
        "Signals rise and fall four times as fast, instead of being raised by waiting: `--set pelt.half_life_ms=8`.",
    ),
];

/// All names.
pub fn names() -> impl Iterator<Item = &'static str> {
    sections().map(|(name, _)| name).chain(["h0"]).chain(PARTS.iter().map(|(name, ..)| *name))
}

/// The page of a scheme or consumer of `cpu_util`, as Markdown; a scheme is also `cpu_util.NAME`. `h0` is another name of `off`.
pub fn section(name: &str) -> Option<&'static str> {
    let scheme = name.strip_prefix("cpu_util.").unwrap_or(name);
    let scheme = if scheme == "h0" { "off" } else { scheme };
    sections().find(|(title, _)| *title == name || *title == scheme).map(|(_, text)| text)
}

/// The policy on whose page a part is, and what the part is.
pub fn part(name: &str) -> Option<(&'static str, &'static str)> {
    PARTS.iter().find(|(part, ..)| *part == name).map(|(_, policy, what)| (*policy, *what))
}

fn sections() -> impl Iterator<Item = (&'static str, &'static str)> {
    SCHEMES.split("\n## ").skip(1).filter_map(|section| section.split_once('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattif_sim::registry::policy;
    use wattif_sim::sched::placement::cpu_util;

    #[test]
    fn every_scheme_and_consumer_has_a_page() {
        let cpu_util = policy("cpu_util").unwrap();
        let schemes = cpu_util.tunable("boost").unwrap().allowed.iter().map(|s| s.to_string());
        let consumers = ["schedutil", "eas", "balance"].map(|c| format!("cpu_util.{c}"));
        for name in schemes.chain(consumers) {
            let text = section(&name).unwrap_or_else(|| panic!("{name} has no page"));
            assert!(["**Fixes**", "**Costs**"].iter().all(|part| text.contains(part)), "{name}");
        }
        assert_eq!((section("h0"), section("cpu_util.off")), (section("off"), section("off")));
        assert_eq!(section("eas"), None, "a policy's name");
        assert!(PARTS.iter().all(|(_, owner, _)| policy(owner).is_some()));
        for (name, _) in cpu_util::SPELLINGS {
            assert!(section(name).is_some() || part(name).is_some(), "{name} is hinted at and not explained");
        }
    }

    /// The figures of a scheme are those of the gallery's table.
    #[test]
    fn figures_are_those_of_the_gallery() {
        let gallery = include_str!("../../../gallery/revert_boost/README.md");
        let mut rows = 0;
        for line in gallery.lines().filter(|l| l.starts_with("| `")) {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let Some(text) = cells[1].split('`').nth(1).and_then(section) else { continue };
            let text = text.to_lowercase().replace('\n', " ");
            let figure = |what: &str, cell: &str| {
                let wanted = format!("{what} {cell}");
                assert!(text.contains(&wanted), "{}: no \"{wanted}\" in {text}", cells[1]);
            };
            figure("video", cells[2]);
            figure("frames", cells[3]);
            figure("energy", cells[4]);
            rows += 1;
        }
        assert_eq!(rows, 7);
    }
}
