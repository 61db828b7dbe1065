//! Which points are worth a look? Those that no other beats in both of two metrics.

/// Indices of the points of the front, by the first value; `values` are to be *low* in both (negate what is to be high). A point
/// with a NaN is on no front.
pub fn pareto(values: &[[f64; 2]]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).filter(|&i| values[i].iter().all(|v| !v.is_nan())).collect();
    order.sort_by(|&a, &b| values[a][0].total_cmp(&values[b][0]).then(values[a][1].total_cmp(&values[b][1])));
    let mut front: Vec<usize> = Vec::new();
    for i in order {
        // Sorted by the first, so a point is beaten by the last of the front or by none; equals stand side by side.
        let free = front.last().is_none_or(|&last| values[i][1] < values[last][1] || values[i] == values[last]);
        if free {
            front.push(i);
        }
    }
    front
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn by_hand() {
        let v = [[1.0, 5.0], [2.0, 2.0], [3.0, 3.0], [4.0, 1.0], [2.0, 2.0], [f64::NAN, 0.0], [1.0, 6.0]];
        assert_eq!(pareto(&v), [0, 1, 4, 3]);
    }

    proptest! {
        #[test]
        fn nobody_on_the_front_is_beaten_and_everybody_else_is(v in prop::collection::vec((0u8..9, 0u8..9), 0..40)) {
            let v: Vec<[f64; 2]> = v.into_iter().map(|(a, b)| [f64::from(a), f64::from(b)]).collect();
            let beaten = |i: usize| v.iter().any(|o| o[0] <= v[i][0] && o[1] <= v[i][1] && *o != v[i]);
            let front = pareto(&v);
            for i in 0..v.len() {
                prop_assert_eq!(front.contains(&i), !beaten(i), "{}", i);
            }
        }
    }
}
