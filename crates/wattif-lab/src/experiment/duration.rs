//! Durations as people write them.

use wattif_model::Ns;

/// `5s`, `1.5 ms`, `200us`, `10ns`, `2min`, `1h`; at most about 584 years. The error says what is accepted.
pub fn parse_duration(text: &str) -> Result<Ns, String> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..split], text[split..].trim());
    let wrong =
        || format!("`{text}` is not a duration; write a number and a unit such as `5s`, `200ms`, `50us`, `2min`");
    let scale: u64 = match unit {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "min" | "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return Err(wrong()),
    };
    exact(number, scale).map(Ns).ok_or_else(wrong)
}

/// Decimal digits times scale, in integers; digits below one nanosecond are refused by being no whole number.
fn exact(number: &str, scale: u64) -> Option<u64> {
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || part.is_empty() || part.len() > 12 {
        return None;
    }
    let digits = 10u128.pow(part.len() as u32);
    let of_part = part.parse::<u128>().ok()? * u128::from(scale);
    let ns = whole.parse::<u128>().ok()?.checked_mul(u128::from(scale))?.checked_add(of_part / digits)?;
    (of_part % digits == 0).then_some(())?;
    u64::try_from(ns).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_and_refused() {
        for (text, ns) in
            [("5s", 5_000_000_000), ("1.5 ms", 1_500_000), ("7777us", 7_777_000), ("2min", 120_000_000_000), ("0s", 0)]
        {
            assert_eq!(parse_duration(text), Ok(Ns(ns)), "{text}");
        }
        for text in [
            "",
            "5",
            "s",
            "-1s",
            "1.s",
            ".5s",
            "1.5ns",
            "1.2.3s",
            "99999999999999999999s",
            "600000000h",
            "5 parsecs",
            "1e3s",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
