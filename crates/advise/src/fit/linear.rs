//! Least squares with coefficients that cannot be negative (Lawson and Hanson 1974, chapter 23), and
//! the measures of whether the columns can be told from each other at all.

/// Coefficients that minimise the squares of `rows x - right` with x >= 0, all columns of one length.
pub(super) fn non_negative(rows: &[Vec<f64>], right: &[f64]) -> Vec<f64> {
    let columns = rows.first().map_or(0, Vec::len);
    let scale: Vec<f64> = (0..columns)
        .map(|c| rows.iter().map(|row| row[c] * row[c]).sum::<f64>().sqrt().max(1e-300))
        .collect();
    // Columns of length 1: neither the thresholds nor the choice of the steepest depend on units.
    let gram = |a: usize, b: usize| {
        rows.iter().map(|row| row[a] * row[b]).sum::<f64>() / (scale[a] * scale[b])
    };
    let gram: Vec<Vec<f64>> =
        (0..columns).map(|a| (0..columns).map(|b| gram(a, b)).collect()).collect();
    let moment: Vec<f64> = (0..columns)
        .map(|c| rows.iter().zip(right).map(|(row, y)| row[c] * y).sum::<f64>() / scale[c])
        .collect();
    let scaled = active_set(&gram, &moment);
    scaled.iter().zip(&scale).map(|(x, scale)| x / scale).collect()
}

/// The active set method on the normal equations.
fn active_set(gram: &[Vec<f64>], moment: &[f64]) -> Vec<f64> {
    let columns = moment.len();
    let mut x = vec![0.0; columns];
    let mut passive = vec![false; columns];
    let size = moment.iter().fold(0.0_f64, |most, m| most.max(m.abs()));
    // Each round frees one column; more rounds than this only turn in a circle of rounding.
    for _ in 0..3 * columns + 10 {
        let slope = |c: usize, x: &[f64]| {
            moment[c] - gram[c].iter().zip(x).map(|(g, x)| g * x).sum::<f64>()
        };
        let steepest = (0..columns)
            .filter(|&c| !passive[c])
            .map(|c| (slope(c, &x), c))
            .max_by(|a, b| a.0.total_cmp(&b.0));
        let Some((gain, column)) = steepest else { break };
        if gain <= 1e-12 * size {
            break;
        }
        passive[column] = true;
        while let Some(trial) = solve_of(gram, moment, &passive) {
            // Only as far as the first coefficient reaches 0; beyond, it would be negative.
            let worst = (0..columns)
                .filter(|&c| passive[c] && trial[c] <= 0.0)
                .map(|c| (x[c] / (x[c] - trial[c]).max(1e-300), c))
                .min_by(|a, b| a.0.total_cmp(&b.0));
            let Some((step, leaves)) = worst else {
                x = trial;
                break;
            };
            for c in 0..columns {
                x[c] += step * (trial[c] - x[c]);
            }
            passive[leaves] = false;
            x[leaves] = 0.0;
        }
    }
    x
}

/// The unbounded solution over the passive columns, 0 elsewhere; none where none is passive.
fn solve_of(gram: &[Vec<f64>], moment: &[f64], passive: &[bool]) -> Option<Vec<f64>> {
    let chosen: Vec<usize> = (0..moment.len()).filter(|&c| passive[c]).collect();
    if chosen.is_empty() {
        return None;
    }
    let matrix = chosen.iter().map(|&a| chosen.iter().map(|&b| gram[a][b]).collect()).collect();
    let right = chosen.iter().map(|&c| moment[c]).collect();
    let solved = eliminate(matrix, right);
    let mut x = vec![0.0; moment.len()];
    for (&c, value) in chosen.iter().zip(solved) {
        x[c] = value;
    }
    Some(x)
}

/// Gauss with pivots; a column that depends on the others gets 0.
fn eliminate(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
    let n = b.len();
    for k in 0..n {
        let pivot = (k..n).max_by(|&i, &j| a[i][k].abs().total_cmp(&a[j][k].abs()));
        let pivot = pivot.expect("the range is not empty");
        a.swap(k, pivot);
        b.swap(k, pivot);
        if a[k][k].abs() < 1e-14 {
            continue;
        }
        let (above, below) = a.split_at_mut(k + 1);
        let chosen = &above[k];
        for (i, row) in below.iter_mut().enumerate() {
            let factor = row[k] / chosen[k];
            for (value, of_chosen) in row.iter_mut().zip(chosen).skip(k) {
                *value -= factor * of_chosen;
            }
            b[k + 1 + i] -= factor * b[k];
        }
    }
    let mut x = vec![0.0; n];
    for k in (0..n).rev() {
        let rest: f64 = (k + 1..n).map(|j| a[k][j] * x[j]).sum();
        x[k] = if a[k][k].abs() < 1e-14 { 0.0 } else { (b[k] - rest) / a[k][k] };
    }
    x
}

/// The correlations of the columns; of one that never changes it is 0 with all others.
pub(super) fn correlations(rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let columns = rows.first().map_or(0, Vec::len);
    let count = rows.len() as f64;
    let mean: Vec<f64> =
        (0..columns).map(|c| rows.iter().map(|row| row[c]).sum::<f64>() / count).collect();
    let cross = |a: usize, b: usize| {
        rows.iter().map(|row| (row[a] - mean[a]) * (row[b] - mean[b])).sum::<f64>()
    };
    let own: Vec<f64> = (0..columns).map(|c| cross(c, c)).collect();
    let of = |a: usize, b: usize| {
        if a == b {
            return 1.0;
        }
        let size = (own[a] * own[b]).sqrt();
        if size > 0.0 { (cross(a, b) / size).clamp(-1.0, 1.0) } else { 0.0 }
    };
    (0..columns).map(|a| (0..columns).map(|b| of(a, b)).collect()).collect()
}

/// The variance inflation of each column: how many times the others widen the variance of its
/// coefficient, the diagonal of the inverse of the correlations.
pub(super) fn inflations(correlations: &[Vec<f64>]) -> Vec<f64> {
    let n = correlations.len();
    let of = |c: usize| {
        // A ridge of rounding's size keeps what cannot be inverted finite and huge.
        let ridged = (0..n).map(|a| {
            (0..n).map(|b| correlations[a][b] + if a == b { 1e-9 } else { 0.0 }).collect()
        });
        let unit = (0..n).map(|a| if a == c { 1.0 } else { 0.0 }).collect();
        eliminate(ridged.collect(), unit)[c].max(1.0)
    };
    (0..n).map(of).collect()
}

/// The condition number of correlations, the ratio of their extreme singular values' roots, by
/// Jacobi's rotations.
pub(super) fn condition(correlations: &[Vec<f64>]) -> f64 {
    let n = correlations.len();
    let mut a = correlations.to_vec();
    for _ in 0..60 {
        let mut off = 0.0;
        for p in 0..n {
            for q in p + 1..n {
                off += a[p][q] * a[p][q];
                rotate(&mut a, p, q);
            }
        }
        if off < 1e-24 {
            break;
        }
    }
    let values = (0..n).map(|c| a[c][c].max(1e-18));
    let (least, most) = values.fold((f64::INFINITY, 0.0_f64), |(l, m), v| (l.min(v), m.max(v)));
    // The eigenvalues of correlations are the squares of the columns' singular values.
    if n == 0 { 1.0 } else { (most / least).sqrt() }
}

fn rotate(a: &mut [Vec<f64>], p: usize, q: usize) {
    if a[p][q].abs() < 1e-300 {
        return;
    }
    let theta = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
    // The smaller root of t^2 + 2 theta t = 1: the rotation that turns least.
    let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
    let t = if theta == 0.0 { 1.0 } else { t };
    let c = 1.0 / (t * t + 1.0).sqrt();
    let s = t * c;
    for row in a.iter_mut() {
        let (x, y) = (row[p], row[q]);
        row[p] = c * x - s * y;
        row[q] = s * x + c * y;
    }
    let (rows_p, rows_q) = (a[p].clone(), a[q].clone());
    a[p] = rows_p.iter().zip(&rows_q).map(|(x, y)| c * x - s * y).collect();
    a[q] = rows_p.iter().zip(&rows_q).map(|(x, y)| s * x + c * y).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coefficients_are_least_squares_and_never_negative() {
        let rows: Vec<Vec<f64>> =
            (1..=6).map(|i| vec![f64::from(i), f64::from(i * i % 5), 1.0]).collect();
        let right: Vec<f64> = rows.iter().map(|r| 2.0 * r[0] + 0.5 * r[1] + 3.0).collect();
        let x = non_negative(&rows, &right);
        assert!([2.0, 0.5, 3.0].iter().zip(&x).all(|(a, b)| (a - b).abs() < 1e-9), "{x:?}");
        let right: Vec<f64> = rows.iter().map(|r| 2.0 * r[0] - 0.5 * r[1]).collect();
        let x = non_negative(&rows, &right);
        assert!(x[1] == 0.0 && x.iter().all(|x| *x >= 0.0), "{x:?}");
    }

    #[test]
    fn columns_that_go_together_are_seen() {
        let rows: Vec<Vec<f64>> = (0..20)
            .map(|i| {
                let a = f64::from(i * 7 % 11);
                vec![a, 2.0 * a + 1e-4 * f64::from(i % 3), f64::from(i * 5 % 13)]
            })
            .collect();
        let correlations = correlations(&rows);
        let inflations = inflations(&correlations);
        assert!(inflations[0] > 1e4 && inflations[2] < 2.0, "{inflations:?}");
        assert!(condition(&correlations) > 1e3);
        let apart = vec![vec![1.0, 0.6], vec![0.6, 1.0]];
        assert!((condition(&apart) - 2.0).abs() < 1e-9);
    }
}
