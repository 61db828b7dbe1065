//! From axes to points.

use super::Axis;
use crate::stats::stream;
use rand_pcg::rand_core::Rng;
use std::collections::BTreeSet;

/// One value per axis, in the order of the axes.
pub type Point = Vec<String>;

/// How points are chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// Every combination.
    Grid,
    /// So many, each value drawn by itself.
    Random(usize),
    /// So many, each axis cut into as many slices of which each is used once (McKay, Beckman and Conover 1979).
    LatinHypercube(usize),
    /// These.
    These(Vec<Point>),
}

impl Sampling {
    /// By name, as a command line or Python says it; `n` is for samples.
    pub fn named(name: &str, n: usize) -> Result<Sampling, String> {
        match name {
            "grid" => Ok(Sampling::Grid),
            "random" => Ok(Sampling::Random(n)),
            "lhs" => Ok(Sampling::LatinHypercube(n)),
            other => Err(format!("sample `{other}`: there are grid, random and lhs")),
        }
    }
}

/// More points than this are a mistake.
const MOST: usize = 1_000_000;

/// The points, without doubles; the same for the same axes and seed.
pub fn points(axes: &[Axis], sampling: &Sampling, seed: u64) -> Result<Vec<Point>, String> {
    let drawn = match *sampling {
        Sampling::Grid => grid(axes)?,
        Sampling::Random(n) | Sampling::LatinHypercube(n) if n == 0 || n > MOST => {
            return Err(format!("{n} samples: from 1 to {MOST}"));
        }
        Sampling::Random(n) => {
            let mut next = uniform(&format!("sweep.random/{seed}"));
            (0..n).map(|_| axes.iter().map(|axis| axis.at(next())).collect()).collect()
        }
        Sampling::LatinHypercube(n) => latin(axes, n, seed),
        Sampling::These(ref points) => points.clone(),
    };
    let mut seen = BTreeSet::new();
    Ok(drawn.into_iter().filter(|p| seen.insert(p.clone())).collect())
}

/// The last axis changes fastest.
fn grid(axes: &[Axis]) -> Result<Vec<Point>, String> {
    let mut points: Vec<Point> = vec![Vec::new()];
    for axis in axes {
        let values = axis.grid()?;
        if points.len().saturating_mul(values.len()) > MOST {
            return Err(format!("the grid has more than {MOST} points: use fewer values, or --sample lhs"));
        }
        let with =
            |p: &Point| values.iter().map(|v| [p.as_slice(), std::slice::from_ref(v)].concat()).collect::<Vec<_>>();
        points = points.iter().flat_map(with).collect();
    }
    Ok(points)
}

fn latin(axes: &[Axis], n: usize, seed: u64) -> Vec<Point> {
    let mut points = vec![Vec::new(); n];
    for axis in axes {
        let mut next = uniform(&format!("sweep.lhs/{seed}/{}", axis.name));
        let mut order: Vec<usize> = (0..n).collect();
        (1..n).rev().for_each(|i| order.swap(i, (next() * (i + 1) as f64) as usize)); // Fisher and Yates
        for (point, slice) in points.iter_mut().zip(order) {
            point.push(axis.at((slice as f64 + next()) / n as f64));
        }
    }
    points
}

/// Numbers from 0 to less than 1.
fn uniform(name: &str) -> impl FnMut() -> f64 + use<> {
    let mut rng = stream(name);
    move || (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes() -> Vec<Axis> {
        ["cpuidle=menu,teo", "x=0..999", "y=1..3/3"].map(|t| Axis::parse(t).unwrap()).into()
    }

    #[test]
    fn grids_are_complete() {
        let two = [axes().remove(0), axes().remove(2)];
        let found = points(&two, &Sampling::Grid, 1).unwrap();
        assert_eq!(found.len(), 6);
        assert_eq!(
            (found[0].join(" "), found[1].join(" "), found[5].join(" ")),
            ("menu 1".into(), "menu 2".into(), "teo 3".into())
        );
        assert!(points(&axes(), &Sampling::Grid, 1).is_err(), "a range without steps");
        assert_eq!(points(&[], &Sampling::Grid, 1).unwrap(), [Vec::<String>::new()]);
    }

    #[test]
    fn samples_are_reproducible_and_a_hypercube_fills_every_slice() {
        let a = points(&axes(), &Sampling::LatinHypercube(10), 7).unwrap();
        assert_eq!(a, points(&axes(), &Sampling::LatinHypercube(10), 7).unwrap());
        assert_ne!(a, points(&axes(), &Sampling::LatinHypercube(10), 8).unwrap());
        let mut slices: Vec<u64> = a.iter().map(|p| p[1].parse::<u64>().unwrap() / 100).collect();
        slices.sort_unstable();
        assert_eq!(slices, (0..10).collect::<Vec<u64>>());
        assert_eq!(a.iter().filter(|p| p[0] == "menu").count(), 5);
        assert!(points(&axes(), &Sampling::Random(5), 7).unwrap().len() <= 5);
        assert!(points(&axes(), &Sampling::Random(0), 7).is_err());
    }
}
