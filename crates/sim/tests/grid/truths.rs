//! Mean responses that are known exactly \[s\], mean service 1 where none is given.

/// M/G/1 with this squared coefficient of variation (Pollaczek, Khinchine).
pub(crate) fn mg1(rho: f64, scv: f64) -> f64 {
    1.0 + rho * (1.0 + scv) / (2.0 * (1.0 - rho))
}

/// GI/M/1: sigma is the root below 1 of sigma = A*(1 - sigma), A* the transform of the gaps.
pub(crate) fn gm1(transform: impl Fn(f64) -> f64) -> f64 {
    let mut sigma = 0.5;
    for _ in 0..10_000 {
        sigma = transform(1.0 - sigma);
    }
    1.0 / (1.0 - sigma)
}

/// M/M/1 with room for so many, of those who find some.
pub(crate) fn mm1k(rho: f64, room: u32) -> f64 {
    let chances: Vec<f64> = (0..=room).map(|n| rho.powi(n as i32)).collect();
    // Who finds n before it stays for n + 1 services.
    let (mut found, mut stays) = (0.0, 0.0);
    for (n, chance) in chances[..room as usize].iter().enumerate() {
        found += chance;
        stays += chance * (n + 1) as f64;
    }
    stays / found
}

/// The mean wait of M/M/c at this load \[erlangs\].
pub(crate) fn erlang_wait(servers: u32, load: f64) -> f64 {
    let mut blocking = 1.0;
    for n in 1..=servers {
        blocking = load * blocking / (f64::from(n) + load * blocking);
    }
    let rho = load / f64::from(servers);
    let delayed = blocking / (1.0 - rho * (1.0 - blocking));
    delayed / (f64::from(servers) - load)
}

/// So many clients, who never think, at two queues of exponential services, 1 and this: how often each is
/// gone to, and the mean number at the second; that is geometric, but for the end of the population.
pub(crate) fn two_queues(clients: u32, faster: f64) -> (f64, f64) {
    let weights: Vec<f64> = (0..=clients).map(|n| faster.powi(n as i32)).collect();
    let all: f64 = weights.iter().sum();
    let jobs: f64 = weights.iter().enumerate().map(|(n, weight)| n as f64 * weight).sum();
    let before: f64 = weights[..clients as usize].iter().sum();
    (before / all, jobs / all)
}

/// So many clients who think before one queue of exponential servers: its states in balance.
pub(crate) fn closed(clients: u32, think: f64, servers: u32, service: f64) -> f64 {
    let (mut weight, mut all, mut jobs, mut busy) = (1.0_f64, 1.0_f64, 0.0_f64, 0.0_f64);
    for n in 1..=clients {
        let at_work = f64::from(n.min(servers));
        weight *= f64::from(clients - n + 1) / think * service / at_work;
        all += weight;
        jobs += weight * f64::from(n);
        busy += weight * at_work;
        if all > 1e200 {
            for sum in [&mut weight, &mut all, &mut jobs, &mut busy] {
                *sum /= 1e200;
            }
        }
    }
    // Little's law.
    jobs * service / busy
}
