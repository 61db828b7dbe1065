//! `--set path=value`: one grammar for everything that can be overridden.
//!
//! | written | changes |
//! |---|---|
//! | `schedutil.rate_limit_us=500` | a tunable of a policy |
//! | `cpufreq=performance` | which policy stands in a slot |
//! | `features.SIS_PROP=true` | a scheduler feature |
//! | `workload.tasks.bg.instance=0` | the workload file, before it is interpreted |
//! | `platform.hz=1000` | the platform file |

use crate::error::Error;
use std::collections::BTreeMap;

/// Overrides by what they change, each in the order given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// For the kernel profile.
    pub kernel: Vec<(String, String)>,
    /// For the workload file, without `workload.`.
    pub workload: Vec<(String, String)>,
    /// For the platform file, without `platform.`.
    pub platform: Vec<(String, String)>,
}

impl Settings {
    /// From the texts given on a command line.
    pub fn parse<S: AsRef<str>>(texts: &[S]) -> Result<Settings, Error> {
        let mut settings = Settings::default();
        for text in texts.iter().map(AsRef::as_ref) {
            let Some((path, value)) = text.split_once('=').filter(|(path, _)| !path.trim().is_empty()) else {
                return Err(Error::Usage(format!(
                    "--set {text}: write path=value, such as schedutil.rate_limit_us=500"
                )));
            };
            settings.add(path.trim(), value.trim());
        }
        Ok(settings)
    }
    /// One override.
    pub fn add(&mut self, path: &str, value: &str) {
        let (list, path) = match (path.strip_prefix("workload."), path.strip_prefix("platform.")) {
            (Some(rest), _) => (&mut self.workload, rest),
            (_, Some(rest)) => (&mut self.platform, rest),
            _ => (&mut self.kernel, path),
        };
        list.push((path.to_string(), value.to_string()));
    }
    /// What is set again later, which is what counts.
    pub fn repeated(&self) -> Vec<String> {
        let again = |(prefix, list): (&str, &Vec<(String, String)>)| {
            let later = |i: usize| list[i + 1..].iter().rfind(|(path, _)| *path == list[i].0);
            let told = |(i, (path, value)): (usize, &(String, String))| {
                let last = &later(i)?.1;
                Some(format!("--set {prefix}{path}={value} has no effect: {prefix}{path}={last} comes after it"))
            };
            list.iter().enumerate().filter_map(told).collect::<Vec<_>>()
        };
        [("", &self.kernel), ("workload.", &self.workload), ("platform.", &self.platform)]
            .into_iter()
            .flat_map(again)
            .collect()
    }
    /// All of them under their full paths, as a report lists them.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        let full = |prefix: &'static str| move |(p, v): &(String, String)| (format!("{prefix}{p}"), v.clone());
        let kernel = self.kernel.iter().map(full(""));
        kernel
            .chain(self.workload.iter().map(full("workload.")))
            .chain(self.platform.iter().map(full("platform.")))
            .collect()
    }
}

/// A length of time such as `5s`, `2.5s`, `100ms`, `7777us`, `1min`; a bare number is seconds.
pub fn duration_ns(text: &str) -> Result<u64, String> {
    if text.starts_with('-') {
        return Err(format!("`{text}` is negative; a run takes time, such as 5s or 250ms"));
    }
    let number = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let unit: u64 = match text[number..].trim() {
        "s" | "" => 1_000_000_000,
        "ms" => 1_000_000,
        "us" | "µs" => 1_000,
        "ns" => 1,
        "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        other => return Err(format!("`{other}` is no unit of time; use ns, us, ms, s, min or h")),
    };
    let ns =
        decimal(&text[..number], unit).ok_or_else(|| format!("`{text}` is no length of time, such as 5s or 2.5ms"))?;
    match ns {
        0 => Err("a run of length 0 has no answer; give at least 1ns".into()),
        n if n > MAX_DURATION_NS => Err(format!("`{text}` is longer than the limit of 7 days")),
        n => Ok(n),
    }
}

/// Longest run: 7 days of simulated time.
const MAX_DURATION_NS: u64 = 7 * 24 * 3_600_000_000_000;

/// `2.5` units, exactly.
fn decimal(text: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() || fraction.len() > 9 || fraction.contains('.') {
        return None;
    }
    let part = if fraction.is_empty() { 0 } else { fraction.parse::<u64>().ok()? };
    let scale = 10u64.pow(fraction.len() as u32);
    let part = u128::from(part) * u128::from(unit) / u128::from(scale);
    // Digits, of which there may be too many: longer than any limit.
    Some(whole.parse::<u64>().unwrap_or(u64::MAX).saturating_mul(unit).saturating_add(part as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let good = ["5s", "2.5ms", "7777us", "1min", "10", "0.000000001s"].map(|t| duration_ns(t).unwrap());
        assert_eq!(good, [5_000_000_000, 2_500_000, 7_777_000, 60_000_000_000, 10_000_000_000, 1]);
        for bad in ["0s", "5 parsecs", "", "-1s", "1..2s", "999999999999h", "8000000000s", ".s"] {
            assert!(duration_ns(bad).is_err(), "{bad}");
        }
        for long in ["99999999999s", "99999999999999999999999h", "605000s"] {
            assert!(duration_ns(long).unwrap_err().contains("longer than the limit of 7 days"), "{long}");
        }
    }

    #[test]
    fn sorted_by_what_they_change() {
        let s = Settings::parse(&["cpufreq=performance", "workload.tasks.a.instance = 0", "platform.hz=100"]).unwrap();
        assert_eq!(s.kernel, [("cpufreq".to_string(), "performance".to_string())]);
        assert_eq!(s.workload, [("tasks.a.instance".to_string(), "0".to_string())]);
        assert_eq!(s.to_map().len(), 3);
        assert_eq!(s.repeated(), [""; 0]);
        let twice = Settings::parse(&["platform.hz=100", "hz=250", "platform.hz=300", "platform.hz=1000"]).unwrap();
        let told = |value: &str| format!("--set platform.hz={value} has no effect: platform.hz=1000 comes after it");
        assert_eq!(twice.repeated(), ["100", "300"].map(told));
        assert!(Settings::parse(&["nonsense"]).is_err() && Settings::parse(&["=1"]).is_err());
    }
}
