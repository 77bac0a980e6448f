//! The budget of streams: which connection carries the next request. Pure.

/// A connection, as far as the budget goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct Room {
    /// Streams that it carries.
    pub(in crate::http) streams: u32,
    /// The most that it may carry: the plan's bound, or the server's where that is lower.
    pub(in crate::http) streams_max: u32,
    /// True if it takes requests: it was not ended by a GOAWAY.
    pub(in crate::http) takes: bool,
}

/// The connection for the next request: the first that has room, so that as few are open as the bound allows;
/// none if a new one must be opened.
pub(in crate::http) fn place(rooms: impl IntoIterator<Item = Option<Room>>) -> Option<usize> {
    rooms
        .into_iter()
        .position(|room| room.is_some_and(|room| room.takes && room.streams < room.streams_max))
}

/// The streams that a new connection may have before the server has said how many it allows: as many as it
/// allows on those that are open. None if none is.
pub(in crate::http) fn allowed_at_first(rooms: &[Option<Room>]) -> Option<u32> {
    // A server that shuts a connection for good does not mean the next one by that.
    rooms.iter().flatten().map(|room| room.streams_max).filter(|most| *most > 0).min()
}

#[cfg(test)]
mod tests {
    use workload::stream;

    use super::*;

    fn room(streams: u32) -> Option<Room> {
        Some(Room { streams, streams_max: 4, takes: true })
    }

    #[test]
    fn the_first_with_room_takes_the_next_request() {
        assert_eq!(place([]), None);
        assert_eq!(place([room(4), None, room(3), room(0)]), Some(2));
        assert_eq!(place([room(4), None]), None);
        let gone = room(0).map(|room| Room { takes: false, ..room });
        assert_eq!(place([gone, room(1)]), Some(1));
        let shut = room(0).map(|room| Room { streams_max: 0, ..room });
        assert_eq!(place([shut]), None);
    }

    #[test]
    fn what_a_server_allows_holds_for_the_next_connection() {
        assert_eq!(allowed_at_first(&[]), None);
        let shut = room(0).map(|room| Room { streams_max: 0, ..room });
        assert_eq!(allowed_at_first(&[None, shut]), None);
        let few = room(3).map(|room| Room { streams_max: 3, ..room });
        assert_eq!(allowed_at_first(&[room(4), few, None]), Some(3));
    }

    /// Requests that come and go at random: no connection ever has more streams than its bound, and none is opened
    /// while another has room, so that there are never more than the most requests in flight need.
    #[test]
    fn no_bound_is_exceeded_and_no_connection_opened_in_vain() {
        use rand::RngExt;
        for seed in 0..50 {
            let mut chance = stream(seed, 0);
            let streams_max = chance.random_range(1..=9);
            let mut links: Vec<u32> = Vec::new();
            let mut in_flight: Vec<usize> = Vec::new();
            let mut most = 0;
            for _ in 0..2_000 {
                if in_flight.is_empty() || chance.random_bool(0.5) {
                    let room = |&streams: &u32| Some(Room { streams, streams_max, takes: true });
                    let at = place(links.iter().map(room)).unwrap_or_else(|| {
                        links.push(0);
                        links.len() - 1
                    });
                    links[at] += 1;
                    in_flight.push(at);
                } else {
                    let at = in_flight.swap_remove(chance.random_range(0..in_flight.len()));
                    links[at] -= 1;
                }
                most = most.max(in_flight.len());
                assert!(links.iter().all(|streams| *streams <= streams_max), "seed {seed}");
                let needed = most.div_ceil(streams_max as usize);
                assert_eq!(links.len(), needed, "seed {seed}: {links:?}");
            }
        }
    }
}
