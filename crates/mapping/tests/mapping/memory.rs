//! Tests of growable memory, compared with a vector.

use arrowwood_mapping::{ErrorKind, GrowableBuffer, copy_nontemporal, store_fence};

/// A xorshift generator of reproducible numbers.
struct Dice(u64);

impl Dice {
    fn new() -> Dice {
        Dice(0x9e37_79b9_7f4a_7c15)
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

#[test]
fn buffer_equals_a_vector_after_random_writes() {
    let mut dice = Dice::new();
    for _ in 0..100 {
        let mut buffer = GrowableBuffer::new();
        let mut expected = Vec::new();
        for _ in 0..dice.below(40) {
            let offset = dice.below(expected.len() + 1);
            let byte = dice.below(256) as u8;
            let len = dice.below(5000);
            buffer.put(offset, &vec![byte; len]).unwrap();
            expected.resize(expected.len().max(offset + len), 0);
            expected[offset..offset + len].fill(byte);
            if dice.below(8) == 0 {
                let len = dice.below(expected.len() + 1);
                buffer.truncate(len);
                expected.truncate(len);
            }
            assert!(buffer[..] == expected[..]);
        }
        assert_eq!(buffer.put(expected.len() + 1, &[1]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn buffer_keeps_its_address_as_it_grows() {
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

/// Set for [`grow_with_few_addresses`] by the test below.
const ROLE: &str = "ARROWWOOD_MEMORY_ROLE";

#[test]
fn grow_with_few_addresses() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let mut buffer = GrowableBuffer::new();
    let numbers: Vec<i64> = (0..4_000_000).collect();
    for number in &numbers {
        buffer.push(*number).unwrap();
    }
    assert!(buffer.chunks_exact(8).zip(&numbers).all(|(bytes, number)| bytes == number.to_le_bytes()));
}

/// With fewer addresses than a buffer may need, it moves as it grows.
#[test]
#[cfg(target_os = "linux")]
fn buffer_keeps_its_bytes_if_addresses_are_limited() {
    let command = r#"ulimit -v 900000; exec "$0" --exact memory::grow_with_few_addresses"#;
    let mut child = std::process::Command::new("sh");
    child.args(["-c", command]).arg(std::env::current_exe().unwrap()).env(ROLE, "child");
    let output = child.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

#[test]
fn buffers_may_reuse_memory() {
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
fn copy_nontemporal_copies_unaligned_ranges() {
    let source: Vec<u8> = (0..10_000u32).map(|n| (n % 251) as u8).collect();
    for start in 0..40 {
        for len in [0, 1, 15, 16, 17, 5000] {
            let mut target = vec![255; start + len + 1];
            copy_nontemporal(&mut target[start..start + len], &source[start..start + len]);
            store_fence();
            assert_eq!(target[start..start + len], source[start..start + len]);
            assert!(target[..start].iter().chain(&target[start + len..]).all(|&byte| byte == 255));
        }
    }
}

/// Returns the resident memory of this process in bytes.
#[cfg(target_os = "linux")]
fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    4096 * pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn discarded_buffer_does_not_touch_unused_memory() {
    let before = resident_bytes();
    for _ in 0..3 {
        let mut buffer = GrowableBuffer::with_len(2 << 30).unwrap();
        buffer.as_mut_slice()[..100].fill(1);
        assert!(resident_bytes() < before + (512 << 20), "{} bytes more", resident_bytes() - before);
        buffer.discard();
    }
}
