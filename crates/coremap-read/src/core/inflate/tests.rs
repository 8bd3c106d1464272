use super::*;
use std::io::{Seek, Write};
use std::os::unix::fs::MetadataExt;

type Fallible = Result<(), Box<dyn std::error::Error>>;

fn noise(len: u32, seed: u32) -> Vec<u8> {
    let mut state = u64::from(seed);
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(next).collect()
}

fn decompressed(compressed: &[u8]) -> Result<(Vec<u8>, Inflated), Box<dyn std::error::Error>> {
    let mut out = to_temporary_file(compressed, None, None, |_| true, &Progress::silent())?;
    let mut bytes = Vec::new();
    out.file.rewind()?;
    out.file.read_to_end(&mut bytes)?;
    Ok((bytes, out))
}

fn zst(bytes: &[u8]) -> io::Result<Vec<u8>> {
    ::zstd::encode_all(bytes, 1)
}

fn gz(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish()
}

fn xz(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
    encoder.write_all(bytes)?;
    encoder.finish()
}

fn lz4(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    encoder.write_all(bytes)?;
    encoder.finish().map_err(io::Error::other)
}

type Compress = fn(&[u8]) -> io::Result<Vec<u8>>;
const COMPRESSIONS: [(&str, Compress); 4] = [("zst", zst), ("gz", gz), ("xz", xz), ("lz4", lz4)];

/// A skippable frame with these contents.
fn skipped(bytes: &[u8]) -> Vec<u8> {
    [&[0x53, 0x2a, 0x4d, 0x18][..], &(bytes.len() as u32).to_le_bytes(), bytes].concat()
}

#[test]
fn zeros_become_holes_and_bytes_stay() -> Fallible {
    let mut data = vec![0u8; 3 << 20];
    data[5000] = 1;
    data[(2 << 20) + 17] = 2;
    let (bytes, out) = decompressed(&zst(&data)?)?;
    assert!(out.broken.is_none());
    assert!(out.file.metadata()?.blocks() * 512 < 100 << 10);
    assert!(bytes == data);
    assert_eq!(out.holes, [8192..2 << 20, (2 << 20) + 4096..3 << 20]);
    Ok(())
}

#[test]
fn parts_one_behind_the_other_are_one_file() -> Fallible {
    // Odd sizes, so that no part begins at a block. The middle one is mostly zeros.
    let mut middle = vec![0; 1_500_001];
    middle[700_000] = 9;
    let parts = [noise(1_200_003, 1), middle, noise(70_001, 7)];
    let whole = parts.concat();
    for (name, compress) in COMPRESSIONS {
        for padding in [0, 4, 512] {
            let mut compressed = Vec::new();
            for part in &parts {
                compressed.extend(compress(part)?);
                compressed.extend(vec![0; padding]);
            }
            let (bytes, out) = decompressed(&compressed)?;
            assert_eq!((&out.broken, out.trailing), (&None, false), "{name}, {padding}");
            assert_eq!(out.compression.map(Compression::name), Some(name));
            assert!(bytes == whole, "{name}, {padding}: {} bytes of {}", bytes.len(), whole.len());
        }
    }
    let mixed = [zst(&parts[0])?, xz(&parts[1])?, gz(&parts[2])?].concat();
    assert!(decompressed(&mixed)?.0 == whole);
    Ok(())
}

#[test]
fn skippable_frames_are_skipped_wherever_they_are() -> Fallible {
    let data = noise(100_000, 3);
    for (name, compress) in COMPRESSIONS {
        let compressed = [
            skipped(b"first"),
            compress(&data[..50_000])?,
            skipped(b""),
            compress(&data[50_000..])?,
            skipped(&[1; 999]),
        ];
        let (bytes, out) = decompressed(&compressed.concat())?;
        assert!(bytes == data && out.broken.is_none() && !out.trailing, "{name}: {:?}", out.broken);
        assert_eq!(out.compression.map(Compression::name), Some(name));
    }
    let cut = [zst(&data)?, skipped(&[1; 999])[..500].to_vec()].concat();
    assert!(decompressed(&cut)?.1.broken.is_some());
    Ok(())
}

#[test]
fn what_follows_and_is_not_compressed_is_left_out_and_told() -> Fallible {
    let data = noise(100_000, 5);
    for (name, compress) in COMPRESSIONS {
        let (bytes, out) = decompressed(&[compress(&data)?, b"garbage".to_vec()].concat())?;
        assert!(bytes == data && out.broken.is_none() && out.trailing, "{name}: {:?}", out.broken);
    }
    Ok(())
}

#[test]
fn a_cut_stream_gives_what_came_before() -> Fallible {
    let data = noise(3 << 20, 0);
    for (name, compress) in COMPRESSIONS {
        let (one, two) = (compress(&data[..1 << 20])?, compress(&data[1 << 20..])?);
        let compressed = [&one[..], &two].concat();
        // Within a part, just before the end of the last, and within its first bytes.
        for cut in [one.len() + two.len() / 2, compressed.len() - 1, one.len() + 3, one.len() - 1] {
            let (bytes, out) = decompressed(&compressed[..cut])?;
            assert!(out.broken.is_some() || out.trailing, "{name} cut at {cut} of {}", compressed.len());
            assert!(data.starts_with(&bytes), "{name} cut at {cut}");
        }
    }
    // Cut anywhere: also at the end of a block, where lz4 notices nothing missing.
    let data = noise(300_000, 0);
    for (name, compress) in COMPRESSIONS {
        let compressed = compress(&data)?;
        let ends = [19 + (64 << 10) + 4, compressed.len() - 8];
        for cut in (20..compressed.len()).step_by(compressed.len() / 100).chain(ends) {
            assert!(decompressed(&compressed[..cut])?.1.broken.is_some(), "{name} cut at {cut}");
        }
    }
    Ok(())
}

/// A frame whose window is larger than the memory limit, with matches across the whole window.
fn long(data: &[u8], known_size: bool) -> io::Result<Vec<u8>> {
    use ::zstd::zstd_safe::CParameter;
    let mut encoder = ::zstd::stream::Encoder::new(Vec::new(), 1)?;
    encoder.set_parameter(CParameter::WindowLog(27))?;
    encoder.set_parameter(CParameter::EnableLongDistanceMatching(true))?;
    if known_size {
        encoder.set_pledged_src_size(Some(data.len() as u64))?;
    }
    encoder.write_all(data)?;
    encoder.finish()
}

#[test]
fn a_window_that_memory_is_too_small_for_is_the_file_itself() -> Fallible {
    let mut data = noise(5_000_001, 11);
    data.resize(44_000_000, 0);
    data.extend(noise(20 << 20, 12));
    data.extend_from_within(1_000_001..3_000_003);
    data.extend(vec![0; 9 << 20]);
    data.extend_from_within(43_000_000..50_000_000);
    for known_size in [false, true] {
        let frame = long(&data, known_size)?;
        assert!(frame.len() < 40 << 20, "nothing is matched");
        // The second frame begins within a page.
        let compressed = [frame, long(&data[4_000_000..], known_size)?].concat();
        let mut out = to_temporary_file(&compressed[..], None, Some(8 << 20), |_| true, &Progress::silent())?;
        assert_eq!((&out.broken, out.trailing), (&None, false));
        let mut bytes = Vec::new();
        out.file.rewind()?;
        out.file.read_to_end(&mut bytes)?;
        assert!(bytes == [&data[..], &data[4_000_000..]].concat(), "known size: {known_size}");
        assert!(out.holes.iter().any(|h| h.end - h.start > 30 << 20), "{:?}", out.holes);
        // A truncated one ends at the cut.
        let out =
            to_temporary_file(&compressed[..compressed.len() / 3], None, Some(8 << 20), |_| true, &Progress::silent())?;
        assert!(out.broken.is_some() && out.file.metadata()?.len() > 0);
    }
    Ok(())
}

#[test]
fn a_dictionary_is_refused_by_what_comes_out_and_not_by_what_it_claims() -> Fallible {
    let mut options = liblzma::stream::LzmaOptions::new_preset(0)?;
    options.dict_size(256 << 20);
    let mut filters = liblzma::stream::Filters::new();
    filters.lzma2(&options);
    let compressed = |bytes: &[u8]| {
        let stream = liblzma::stream::Stream::new_stream_encoder(&filters, liblzma::stream::Check::Crc32)?;
        let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
        encoder.write_all(bytes)?;
        encoder.finish()
    };
    let small = compressed(&noise(1 << 20, 1))?;
    let out = to_temporary_file(&small[..], None, Some(8 << 20), |_| true, &Progress::silent())?;
    assert_eq!((out.broken, out.file.metadata()?.len()), (None, 1 << 20));
    let large = compressed(&vec![0; 20 << 20])?;
    let mut file = tempfile::tempfile()?;
    file.write_all(&large)?;
    for file in [None, Some(&file)] {
        let refused = to_temporary_file(&large[..], file, Some(8 << 20), |_| true, &Progress::silent());
        let why = refused.err().map(|e| e.to_string()).unwrap_or_default();
        assert!(why.contains("the dictionary needs 256.") && why.contains("allow it with --memory 257MiB"), "{why}");
    }
    assert!(to_temporary_file(&large[..], None, Some(257 << 20), |_| true, &Progress::silent())?.broken.is_none());
    Ok(())
}
