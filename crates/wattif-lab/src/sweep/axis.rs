//! `name=1,2,4`, `name=100..2000`, `name=100..2000/5`.

/// Something that is set to several values.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// `kernel`, `platform`, or a path as of `--set`: `schedutil.rate_limit_us`, `cpuidle`, `workload.…`, `platform.…`.
    pub name: String,
    /// What it is set to.
    pub values: Values,
}

/// The values of an axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// These.
    List(Vec<String>),
    /// Whole numbers from the first to the second, both included; a grid takes `steps` of them.
    Range {
        /// Smallest.
        from: i64,
        /// Largest.
        to: i64,
        /// Points of a grid; `None`: not said.
        steps: Option<u64>,
    },
}

/// More values than this are a mistake.
const MOST: u64 = 100_000;

impl Axis {
    /// From `NAME=VALUES`.
    pub fn parse(text: &str) -> Result<Axis, String> {
        const FORM: &str = "write name=values, such as schedutil.rate_limit_us=500,1000,2000 or 500..4000/8";
        let (name, values) = text.split_once('=').ok_or_else(|| format!("`{text}`: {FORM}"))?;
        let (name, values) = (name.trim(), values.trim());
        if name.is_empty() || values.is_empty() {
            return Err(format!("`{text}`: {FORM}"));
        }
        let values = match values.split_once("..") {
            Some((from, rest)) => range(from, rest).map_err(|why| format!("`{text}`: {why}"))?,
            None => Values::List(values.split(',').map(|v| v.trim().to_string()).collect()),
        };
        if let Values::List(list) = &values
            && let Some(i) = (0..list.len()).find(|&i| list[i].is_empty() || list[..i].contains(&list[i]))
        {
            return Err(format!(
                "`{text}`: value {} is {}",
                i + 1,
                if list[i].is_empty() { "empty" } else { "there twice" }
            ));
        }
        Ok(Axis { name: name.to_string(), values })
    }

    /// The values of a grid.
    pub fn grid(&self) -> Result<Vec<String>, String> {
        match &self.values {
            Values::List(list) => Ok(list.clone()),
            Values::Range { from, to, steps: Some(steps) } => {
                let at = |i: u64| {
                    let span = i128::from(*to) - i128::from(*from);
                    i128::from(*from) + span * i128::from(i) / i128::from((*steps - 1).max(1))
                };
                let mut values: Vec<String> = (0..*steps).map(|i| at(i).to_string()).collect();
                values.dedup();
                Ok(values)
            }
            Values::Range { from, to, .. } => {
                Err(format!("a grid needs steps: write {}={from}..{to}/8, or sample with --sample random", self.name))
            }
        }
    }

    /// The value at a place between 0 and 1 (less than 1).
    pub fn at(&self, u: f64) -> String {
        match &self.values {
            Values::List(list) => list[((u * list.len() as f64) as usize).min(list.len() - 1)].clone(),
            Values::Range { from, to, .. } => {
                let span = (i128::from(*to) - i128::from(*from) + 1) as f64;
                (i128::from(*from) + (u * span) as i128).min(i128::from(*to)).to_string()
            }
        }
    }
}

fn range(from: &str, rest: &str) -> Result<Values, String> {
    let (to, steps) = rest.split_once('/').map_or((rest, None), |(to, steps)| (to, Some(steps)));
    let number = |text: &str| text.trim().parse::<i64>().map_err(|_| format!("`{}` is no whole number", text.trim()));
    let (from, to) = (number(from)?, number(to)?);
    if from >= to {
        return Err(format!("the range {from}..{to} is empty"));
    }
    let steps = steps.map(|s| number(s).ok().and_then(|n| u64::try_from(n).ok()).filter(|n| (2..=MOST).contains(n)));
    match steps {
        Some(None) => Err(format!("steps are a number from 2 to {MOST}")),
        steps => Ok(Values::Range { from, to, steps: steps.flatten() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let grid = |text: &str| Axis::parse(text).unwrap().grid();
        assert_eq!(grid("cpuidle=menu, teo").unwrap(), ["menu", "teo"]);
        assert_eq!(grid("x=0..10/3").unwrap(), ["0", "5", "10"]);
        assert_eq!(grid("x=1..3/9").unwrap(), ["1", "2", "3"]);
        assert_eq!(grid("teo.generation=5.6,6.12").unwrap(), ["5.6", "6.12"]);
        assert!(grid("x=0..10").unwrap_err().contains("x=0..10/8"));
        for bad in ["x", "=1", "x=", "x=1,,2", "x=1,1", "x=5..1", "x=a..b", "x=1..5/1", "x=1..5/z"] {
            assert!(Axis::parse(bad).is_err(), "{bad}");
        }
        let x = Axis::parse("x=10..12").unwrap();
        assert_eq!([0.0, 0.34, 0.999_999].map(|u| x.at(u)), ["10", "11", "12"]);
    }
}
