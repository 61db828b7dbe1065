//! What a kernel was told when it began, and what no profile or platform can ask for of it: CPUs kept apart, ticks, how idle CPUs wait.
//!
//! Files that say what became of an option count before the command line, which has no more than what was asked.

use super::{CPU, Files, cpus_in};
use crate::machine::list;
use crate::platform_toml::cpus_of;
use wattif_model::check::Diagnostic;

/// Options of the command line that change figures, and what holds here; whether they are of the CPUs rather than of the kernel.
const OPTIONS: [(&str, &str, bool); 7] = [
    ("nohz=off", "ticks of idle CPUs stop here", false),
    ("nohz=0", "ticks of idle CPUs stop here", false),
    ("highres=off", "timers expire when they are due here, not with the next tick", false),
    ("threadirqs", "interrupts are no threads here", false),
    ("idle=poll", "idle CPUs sleep here, in the platform's states", true),
    ("idle=halt", "idle CPUs sleep in all of the platform's states here", true),
    ("cpuidle.off=1", "idle CPUs sleep in the platform's states here", true),
];

/// Of a live machine or a capture.
pub(super) struct Boot {
    /// The command line; `None`: not captured.
    words: Option<Vec<String>>,
    /// CPUs that wake-ups and the load balancer leave out.
    isolated: Vec<u32>,
    /// CPUs whose ticks stop while one thread runs; `None`: nothing tells.
    pub nohz_full: Option<Vec<u32>>,
}

impl Boot {
    pub fn of(files: Files<'_>) -> Boot {
        // What is behind `--` is for the first program.
        let words = files("proc/cmdline")
            .map(|line| line.split_whitespace().take_while(|w| *w != "--").map(String::from).collect::<Vec<_>>());
        let asked = |option| last(&words, option);
        // `isolcpus=domain,managed_irq,2-3`; flags that leave `domain` out keep nobody from these CPUs.
        let isolcpus = || {
            let text = asked("isolcpus")?;
            let from = text.find(|c: char| c.is_ascii_digit())?;
            let (flags, cpus) = text.split_at(from);
            let domain = flags.is_empty() || flags.split(',').any(|flag| flag == "domain");
            cpus_of(cpus).filter(|_| domain)
        };
        // One that is there and lists no CPU says `(null)` or nothing.
        let told = |file: &str| {
            let path = format!("{CPU}/{file}");
            files(&path).map(|_| cpus_in(files, &path).unwrap_or_default())
        };
        let isolated = told("isolated").or_else(isolcpus).unwrap_or_default();
        let nohz_full = told("nohz_full").or_else(|| {
            words.as_ref()?;
            Some(asked("nohz_full").and_then(cpus_of).unwrap_or_default())
        });
        Boot { isolated, nohz_full, words }
    }

    /// What an option was set to.
    pub fn asked(&self, option: &str) -> Option<String> {
        last(&self.words, option).map(String::from)
    }

    fn has(&self, option: &str) -> bool {
        self.words.iter().flatten().any(|w| w == option)
    }

    /// Do ticks of idle CPUs go on?
    pub fn ticks_go_on(&self) -> bool {
        self.has("nohz=off") || self.has("nohz=0")
    }

    /// What is of the CPUs.
    pub fn of_cpus(&self) -> impl Iterator<Item = Diagnostic> {
        let cpus = list(&self.isolated);
        let isolated = (!self.isolated.is_empty()).then(|| {
            format!(
                "CPUs {cpus} are isolated (isolcpus): not simulated; wake-ups and the load balancer use them as all others here"
            )
        });
        isolated.into_iter().chain(self.options(true)).map(warn)
    }

    /// All of it.
    pub fn of_kernel(&self) -> impl Iterator<Item = Diagnostic> {
        let full = self.nohz_full.as_ref().filter(|cpus| !cpus.is_empty());
        let full =
            full.map(|cpus| format!("nohz_full={}: not simulated; ticks of busy CPUs never stop here", list(cpus)));
        self.of_cpus().chain(full.into_iter().chain(self.options(false)).map(warn))
    }

    fn options(&self, of_cpus: bool) -> impl Iterator<Item = String> {
        let set = OPTIONS.iter().filter(move |(option, _, cpus)| *cpus == of_cpus && self.has(option));
        set.map(|(option, instead, _)| format!("{option} on the command line: not simulated; {instead}"))
    }
}

/// The last value of an option counts.
fn last<'a>(words: &'a Option<Vec<String>>, option: &str) -> Option<&'a str> {
    words.iter().flatten().rev().find_map(|w| w.strip_prefix(option)?.strip_prefix('='))
}

fn warn(message: String) -> Diagnostic {
    Diagnostic::warning("sysfs::W03", 0..0, message)
}

#[cfg(test)]
mod tests {
    use super::super::{KernelFacts, kernel, platform};

    /// What kernel and platform say of such files, by the first words.
    fn said(files: &[(&str, &str)]) -> [Vec<String>; 2] {
        let of = |path: &str| match path {
            "sys/devices/system/cpu/online" => Some("0-3\n".into()),
            "proc/sys/kernel/osrelease" => Some("5.10.0\n".into()),
            "proc/config" => Some("CONFIG_HZ=250\nCONFIG_NO_HZ_FULL=y\n".into()),
            _ => files.iter().find(|(file, _)| path.ends_with(file)).map(|(_, text)| format!("{text}\n")),
        };
        let out = kernel(&KernelFacts::of(&of), "k", "linux-5.7", &[]);
        [out.diagnostics, platform(&of, "p").diagnostics].map(|all| {
            let boot = all.into_iter().filter(|d| d.code == "sysfs::W03");
            boot.map(|d| d.message.split(&[':', ' '][..]).next().unwrap_or_default().to_string()).collect()
        })
    }

    #[test]
    fn what_no_profile_can_ask_for_is_told() {
        let line = "BOOT_IMAGE=/x isolcpus=2-3 nohz_full=2-3 nohz=off idle=poll quiet -- threadirqs";
        let all = ["CPUs", "idle=poll", "nohz_full=2-3", "nohz=off"].map(String::from).to_vec();
        let of_cpus = all[..2].to_vec();
        assert_eq!(said(&[("proc/cmdline", line)]), [all.clone(), of_cpus.clone()], "asked for");
        let became = [("cpu/isolated", "2-3"), ("cpu/nohz_full", "2-3"), ("proc/cmdline", line)];
        assert_eq!(said(&became), [all.clone(), of_cpus]);
        let refused = [("cpu/isolated", ""), ("cpu/nohz_full", "(null)"), ("proc/cmdline", line)];
        assert_eq!(said(&refused)[0], [all[1].clone(), all[3].clone()], "what became of it counts");
        let none = Vec::<String>::new();
        assert_eq!(said(&[("proc/cmdline", "isolcpus=managed_irq,1 ro")]), [none.clone(), none.clone()]);
        assert_eq!(said(&[("proc/cmdline", "isolcpus=nohz,domain,1 ro")])[1], ["CPUs"]);
        assert_eq!(said(&[]), [vec!["CONFIG_NO_HZ_FULL".to_string()], none], "nothing tells");
    }

    /// Where the files that tell those in use were not captured.
    #[test]
    fn governors_of_the_command_line() {
        let with = |file: &'static str| {
            let of = move |path: &str| match path {
                "proc/cmdline" => {
                    Some("cpuidle.governor=menu cpuidle.governor=teo cpufreq.default_governor=performance\n".into())
                }
                "proc/config" => Some("CONFIG_HZ=250\n".into()),
                _ => (path.ends_with(file)).then(|| "haltpoll\n".into()),
            };
            let toml = kernel(&KernelFacts::of(&of), "k", "linux-5.7", &[]).toml.unwrap();
            toml.lines().filter(|l| l.starts_with("cpu")).map(String::from).collect::<Vec<_>>()
        };
        assert_eq!(with("none"), ["cpufreq = \"performance\"", "cpuidle = \"teo\""]);
        assert_eq!(with("current_governor")[1], "cpuidle = \"haltpoll\"", "what became of it");
    }

    /// Where ticks go on, the kernel rates it above the others.
    #[test]
    fn the_idle_governor_of_a_kernel_whose_ticks_go_on() {
        let with = |line: &'static str| {
            let of = move |path: &str| match path {
                "proc/cmdline" => Some(line.to_string()),
                "proc/config" => {
                    Some("CONFIG_HZ=250\nCONFIG_CPU_IDLE_GOV_LADDER=y\nCONFIG_CPU_IDLE_GOV_MENU=y\n".into())
                }
                _ => None,
            };
            kernel(&KernelFacts::of(&of), "k", "linux-5.7", &[]).toml.unwrap()
        };
        assert!(with("nohz=off").contains("cpuidle = \"ladder\""));
        assert!(with("ro quiet").contains("cpuidle = \"menu\""));
    }
}
