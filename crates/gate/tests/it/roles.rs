//! Replicas: who goes there, and what becomes of jobs when roles change.

use gate::{Access, Event, Gate, GateSpec, Job, JobId, Role, RouterSpec, SpecError};

use crate::play::{Play, arrive, arrive_until, depart, late, per_server, shared, start};

fn with(roles: &[Role]) -> GateSpec {
    let slots = vec![1; roles.len()];
    GateSpec { roles: roles.to_vec(), ..per_server(&slots, RouterSpec::RoundRobin) }
}

fn read(id: u64) -> Event {
    Event::Arrive(Job { access: Access::Read, ..Job::new(JobId(id)) })
}

fn role(server: u32, role: Role) -> Event {
    Event::Role { server, role }
}

use Role::{Primary, Replica};

#[test]
fn who_only_reads_goes_to_the_replicas_and_who_writes_to_the_primary() {
    let mut play = Play::new(&with(&[Replica, Primary, Replica]));
    play.table(&[
        (0, read(1), &[start(1, 0, 0)]),
        (0, arrive(2), &[start(2, 1, 0)]),
        (0, read(3), &[start(3, 2, 0)]),
        (0, read(4), &[]),
        (0, arrive(5), &[]),
        (1, depart(0, 0), &[start(4, 0, 0)]),
        (2, depart(1, 0), &[start(5, 1, 0)]),
    ]);
}

#[test]
fn without_a_replica_the_primary_serves_who_reads() {
    let mut play = Play::new(&with(&[Primary, Replica]));
    play.table(&[
        (0, read(1), &[start(1, 1, 0)]),
        (0, read(2), &[]),
        (1, Event::Down(1), &[start(2, 0, 0)]),
        (2, read(3), &[]),
        // Who waits for the primary stays there; who comes now goes to the replica.
        (3, depart(1, 0), &[]),
        (4, Event::Up(1), &[]),
        (5, read(4), &[start(4, 1, 0)]),
        (6, depart(0, 0), &[start(3, 0, 0)]),
    ]);
}

#[test]
fn who_writes_waits_through_a_failover_up_to_its_deadline() {
    let mut play = Play::new(&with(&[Primary, Replica]));
    play.table(&[
        (0, arrive(1), &[start(1, 0, 0)]),
        (0, arrive(2), &[]),
        (1, Event::Down(0), &[]),
        (2, arrive_until(3, 5), &[]),
        (3, read(4), &[start(4, 1, 0)]),
        (4, depart(1, 0), &[]),
        (5, Event::Wake, &[late(3)]),
        (6, role(1, Primary), &[start(2, 1, 0)]),
        (7, arrive(5), &[]),
        // The old one comes back as a replica of the new one, and finishes what it was at.
        (8, role(0, Replica), &[]),
        (9, Event::Up(0), &[]),
        (10, depart(0, 0), &[]),
        (11, read(6), &[start(6, 0, 0)]),
        (12, depart(1, 0), &[start(5, 1, 0)]),
    ]);
}

#[test]
fn who_waits_for_a_server_that_is_no_primary_any_more_is_routed_anew() {
    let mut play = Play::new(&GateSpec { roles: Vec::new(), ..with(&[Primary, Primary]) });
    play.table(&[
        (0, arrive(1), &[start(1, 0, 0)]),
        (0, arrive(2), &[start(2, 1, 0)]),
        (0, arrive(3), &[]),
        (0, read(4), &[]),
        (1, depart(1, 0), &[start(4, 1, 0)]),
        (2, role(0, Replica), &[]),
        (3, depart(0, 0), &[]),
        (4, depart(1, 0), &[start(3, 1, 0)]),
        (5, read(5), &[start(5, 0, 0)]),
    ]);
}

#[test]
fn roles_fit_the_servers() {
    let refused = |spec: GateSpec| Gate::new(&spec).unwrap_err();
    assert_eq!(refused(GateSpec { roles: vec![Primary], ..with(&[Primary; 2]) }), SpecError::Roles);
    let one_queue = GateSpec { roles: vec![Primary, Replica], ..shared(&[1, 1]) };
    assert_eq!(refused(one_queue), SpecError::RoleWithoutQueues);
    assert!(Gate::new(&GateSpec { roles: vec![Primary; 2], ..shared(&[1, 1]) }).is_ok());
}
