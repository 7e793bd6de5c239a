//! Memory that grows, against a vector.

use arrowwood_mapping::{ErrorKind, GrowableBuffer, copy_nontemporal, store_fence};

/// The same numbers every time, which look like none in particular.
fn dice() -> impl FnMut(usize) -> usize {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    }
}

#[test]
fn a_buffer_is_what_was_put_there() {
    let mut dice = dice();
    for _ in 0..100 {
        let mut buffer = GrowableBuffer::new();
        let mut twin = Vec::new();
        for _ in 0..dice(40) {
            let at = dice(twin.len() + 1);
            let byte = dice(256) as u8;
            let len = dice(5000);
            buffer.put(at, &vec![byte; len]).unwrap();
            twin.resize(twin.len().max(at + len), 0);
            twin[at..at + len].fill(byte);
            if dice(8) == 0 {
                let len = dice(twin.len() + 1);
                buffer.truncate(len);
                twin.truncate(len);
            }
            assert!(buffer[..] == twin[..]);
        }
        assert_eq!(buffer.put(twin.len() + 1, &[1]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn growth_moves_nothing() {
    let mut buffer = GrowableBuffer::new();
    buffer.push(0i64).unwrap();
    let address = buffer.address();
    assert!(address.is_multiple_of(4096));
    for number in 1..4_000_000i64 {
        buffer.push(number).unwrap();
        assert_eq!(buffer.address(), address);
    }
    assert_eq!(buffer.len(), 32_000_000);
}

#[test]
fn memory_that_was_used_before_is_as_good_as_new() {
    for round in 0..8u8 {
        let mut buffer = GrowableBuffer::with_len(3 << 20).unwrap();
        buffer.as_mut_slice().fill(round);
        assert!(buffer.iter().all(|&byte| byte == round));
        let start = buffer.len();
        buffer.extend_uninit(5000).unwrap().fill(round + 1);
        assert!(buffer[..start].iter().all(|&byte| byte == round));
        assert!(buffer[start..].iter().all(|&byte| byte == round + 1));
    }
}

#[test]
fn copies_past_the_caches_are_copies() {
    let from: Vec<u8> = (0..10_000u32).map(|n| (n % 251) as u8).collect();
    for start in 0..40 {
        for len in [0, 1, 15, 16, 17, 5000] {
            let mut into = vec![255; start + len + 1];
            copy_nontemporal(&mut into[start..start + len], &from[start..start + len]);
            store_fence();
            assert_eq!(into[start..start + len], from[start..start + len]);
            assert!(into[..start].iter().chain(&into[start + len..]).all(|&byte| byte == 255));
        }
    }
}

/// The bytes of this process in memory.
#[cfg(target_os = "linux")]
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    4096 * pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn a_buffer_that_was_not_filled_takes_no_memory_later() {
    let before = resident();
    for _ in 0..3 {
        let mut buffer = GrowableBuffer::with_len(2 << 30).unwrap();
        buffer.as_mut_slice()[..100].fill(1);
        assert!(resident() < before + (512 << 20), "{} bytes more", resident() - before);
        buffer.discard();
    }
}
