# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO
from chronotile_ksy.traced import tiledb_datatype
from enum import IntEnum
import collections


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class TiledbFilterPipeline(KaitaiStruct):
    """The filters that a tile went through on its way to disk, in that order.
    
    .. seealso::
       Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/filter_pipeline.md
    """

    class Compressors(IntEnum):
        no_compression = 0
        gzip = 1
        zstd = 2
        lz4 = 3
        rle = 4
        bzip2 = 5
        double_delta = 6
        dictionary = 7
        delta = 8

    class FilterTypes(IntEnum):
        none = 0
        gzip = 1
        zstd = 2
        lz4 = 3
        rle = 4
        bzip2 = 5
        double_delta = 6
        bit_width_reduction = 7
        bitshuffle = 8
        byteshuffle = 9
        positive_delta = 10
        aes_256_gcm = 11
        checksum_md5 = 12
        checksum_sha256 = 13
        dictionary = 14
        scale_float = 15
        xor = 16
        deprecated = 17
        webp = 18
        delta = 19
    SEQ_FIELDS = ["len_chunk_max", "num_filters", "filters"]
    def __init__(self, _io, _parent=None, _root=None):
        super(TiledbFilterPipeline, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._debug = collections.defaultdict(dict)

    def _read(self):
        self._debug['len_chunk_max']['start'] = self._io.pos()
        self.len_chunk_max = self._io.read_u4le()
        self._debug['len_chunk_max']['end'] = self._io.pos()
        self._debug['num_filters']['start'] = self._io.pos()
        self.num_filters = self._io.read_u4le()
        self._debug['num_filters']['end'] = self._io.pos()
        if not self.num_filters <= (self._io.size() - self._io.pos()) // 5:
            raise kaitaistruct.ValidationGreaterThanError((self._io.size() - self._io.pos()) // 5, self.num_filters, self._io, u"/seq/1")
        self._debug['filters']['start'] = self._io.pos()
        self._debug['filters']['arr'] = []
        self.filters = []
        for i in range(self.num_filters):
            self._debug['filters']['arr'].append({'start': self._io.pos()})
            _t_filters = TiledbFilterPipeline.TileFilter(self._io, self, self._root)
            try:
                _t_filters._read()
            finally:
                self.filters.append(_t_filters)
            self._debug['filters']['arr'][i]['end'] = self._io.pos()

        self._debug['filters']['end'] = self._io.pos()


    def _fetch_instances(self):
        pass
        for i in range(len(self.filters)):
            pass
            self.filters[i]._fetch_instances()


    class CompressionOptions(KaitaiStruct):
        """Which compressor, and how hard it tries. A delta filter of version 19 or
        later (a double delta of version 20 or later) adds the datatype as which
        it reads the bytes.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/filter_pipeline.md#filter-options
        """
        SEQ_FIELDS = ["compressor", "level", "reinterpret_datatype", "trailing"]
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbFilterPipeline.CompressionOptions, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._debug = collections.defaultdict(dict)

        def _read(self):
            self._debug['compressor']['start'] = self._io.pos()
            self.compressor = KaitaiStream.resolve_enum(TiledbFilterPipeline.Compressors, self._io.read_u1())
            self._debug['compressor']['end'] = self._io.pos()
            self._debug['level']['start'] = self._io.pos()
            self.level = self._io.read_s4le()
            self._debug['level']['end'] = self._io.pos()
            if (not (self._io.is_eof())):
                pass
                self._debug['reinterpret_datatype']['start'] = self._io.pos()
                self.reinterpret_datatype = tiledb_datatype.TiledbDatatype(self._io)
                self.reinterpret_datatype._read()
                self._debug['reinterpret_datatype']['end'] = self._io.pos()

            self._debug['trailing']['start'] = self._io.pos()
            self.trailing = self._io.read_bytes_full()
            self._debug['trailing']['end'] = self._io.pos()
            if not self.trailing == b"":
                raise kaitaistruct.ValidationNotEqualError(b"", self.trailing, self._io, u"/types/compression_options/seq/3")


        def _fetch_instances(self):
            pass
            if (not (self._io.is_eof())):
                pass
                self.reinterpret_datatype._fetch_instances()



    class OtherOptions(KaitaiStruct):
        """Options that no commit file carries, left as they are.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/filter_pipeline.md#filter-options
        """
        SEQ_FIELDS = ["raw"]
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbFilterPipeline.OtherOptions, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._debug = collections.defaultdict(dict)

        def _read(self):
            self._debug['raw']['start'] = self._io.pos()
            self.raw = self._io.read_bytes_full()
            self._debug['raw']['end'] = self._io.pos()


        def _fetch_instances(self):
            pass


    class TileFilter(KaitaiStruct):
        """One filter and its options.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/filter_pipeline.md#filter
        """
        SEQ_FIELDS = ["filter_type", "len_options", "options"]
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbFilterPipeline.TileFilter, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._debug = collections.defaultdict(dict)

        def _read(self):
            self._debug['filter_type']['start'] = self._io.pos()
            self.filter_type = KaitaiStream.resolve_enum(TiledbFilterPipeline.FilterTypes, self._io.read_u1())
            self._debug['filter_type']['end'] = self._io.pos()
            if not isinstance(self.filter_type, TiledbFilterPipeline.FilterTypes):
                raise kaitaistruct.ValidationNotInEnumError(self.filter_type, self._io, u"/types/tile_filter/seq/0")
            self._debug['len_options']['start'] = self._io.pos()
            self.len_options = self._io.read_u4le()
            self._debug['len_options']['end'] = self._io.pos()
            if not self.len_options <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_options, self._io, u"/types/tile_filter/seq/1")
            self._debug['options']['start'] = self._io.pos()
            _on = self.filter_type
            if _on == TiledbFilterPipeline.FilterTypes.bit_width_reduction:
                pass
                self._raw_options = self._io.read_bytes(self.len_options)
                _io__raw_options = KaitaiStream(BytesIO(self._raw_options))
                self.options = TiledbFilterPipeline.WindowOptions(_io__raw_options, self, self._root)
                self.options._read()
            elif _on == TiledbFilterPipeline.FilterTypes.bzip2:
                pass
                self._raw_options = self._io.read_bytes(self.len_options)
                _io__raw_options = KaitaiStream(BytesIO(self._raw_options))
                self.options = TiledbFilterPipeline.CompressionOptions(_io__raw_options, self, self._root)
                self.options._read()
            elif _on == TiledbFilterPipeline.FilterTypes.delta:
                pass
                self._raw_options = self._io.read_bytes(self.len_options)
                _io__raw_options = KaitaiStream(BytesIO(self._raw_options))
                self.options = TiledbFilterPipeline.CompressionOptions(_io__raw_options, self, self._root)
                self.options._read()
            elif _on == TiledbFilterPipeline.FilterTypes.dictionary:
                pass
                self._raw_options = self._io.read_bytes(self.len_options)
                _io__raw_options = KaitaiStream(BytesIO(self._raw_options))
                self.options = TiledbFilterPipeline.CompressionOptions(_io__raw_options, self, self._root)
                self.options._read()
            elif _on == TiledbFilterPipeline.FilterTypes.double_delta:
                pass
                self._raw_options = self._io.read_bytes(self.len_options)
                _io__raw_options = KaitaiStream(BytesIO(self._raw_options))
                self.options = TiledbFilterPipeline.CompressionOptions(_io__raw_options, self, self._root)
                self.options._read()
            elif _on == TiledbFilterPipeline.FilterTypes.gzip:
                pass
                self._raw_options = self._io.read_bytes(self.len_options)
                _io__raw_options = KaitaiStream(BytesIO(self._raw_options))
                self.options = TiledbFilterPipeline.CompressionOptions(_io__raw_options, self, self._root)
                self.options._read()
            elif _on == TiledbFilterPipeline.FilterTypes.lz4:
                pass
                self._raw_options = self._io.read_bytes(self.len_options)
                _io__raw_options = KaitaiStream(BytesIO(self._raw_options))
                self.options = TiledbFilterPipeline.CompressionOptions(_io__raw_options, self, self._root)
                self.options._read()
            elif _on == TiledbFilterPipeline.FilterTypes.positive_delta:
                pass
                self._raw_options = self._io.read_bytes(self.len_options)
                _io__raw_options = KaitaiStream(BytesIO(self._raw_options))
                self.options = TiledbFilterPipeline.WindowOptions(_io__raw_options, self, self._root)
                self.options._read()
            elif _on == TiledbFilterPipeline.FilterTypes.rle:
                pass
                self._raw_options = self._io.read_bytes(self.len_options)
                _io__raw_options = KaitaiStream(BytesIO(self._raw_options))
                self.options = TiledbFilterPipeline.CompressionOptions(_io__raw_options, self, self._root)
                self.options._read()
            elif _on == TiledbFilterPipeline.FilterTypes.zstd:
                pass
                self._raw_options = self._io.read_bytes(self.len_options)
                _io__raw_options = KaitaiStream(BytesIO(self._raw_options))
                self.options = TiledbFilterPipeline.CompressionOptions(_io__raw_options, self, self._root)
                self.options._read()
            else:
                pass
                self._raw_options = self._io.read_bytes(self.len_options)
                _io__raw_options = KaitaiStream(BytesIO(self._raw_options))
                self.options = TiledbFilterPipeline.OtherOptions(_io__raw_options, self, self._root)
                self.options._read()
            self._debug['options']['end'] = self._io.pos()


        def _fetch_instances(self):
            pass
            _on = self.filter_type
            if _on == TiledbFilterPipeline.FilterTypes.bit_width_reduction:
                pass
                self.options._fetch_instances()
            elif _on == TiledbFilterPipeline.FilterTypes.bzip2:
                pass
                self.options._fetch_instances()
            elif _on == TiledbFilterPipeline.FilterTypes.delta:
                pass
                self.options._fetch_instances()
            elif _on == TiledbFilterPipeline.FilterTypes.dictionary:
                pass
                self.options._fetch_instances()
            elif _on == TiledbFilterPipeline.FilterTypes.double_delta:
                pass
                self.options._fetch_instances()
            elif _on == TiledbFilterPipeline.FilterTypes.gzip:
                pass
                self.options._fetch_instances()
            elif _on == TiledbFilterPipeline.FilterTypes.lz4:
                pass
                self.options._fetch_instances()
            elif _on == TiledbFilterPipeline.FilterTypes.positive_delta:
                pass
                self.options._fetch_instances()
            elif _on == TiledbFilterPipeline.FilterTypes.rle:
                pass
                self.options._fetch_instances()
            elif _on == TiledbFilterPipeline.FilterTypes.zstd:
                pass
                self.options._fetch_instances()
            else:
                pass
                self.options._fetch_instances()


    class WindowOptions(KaitaiStruct):
        """The longest run of bytes that the filter takes at once.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/filter_pipeline.md#filter-options
        """
        SEQ_FIELDS = ["len_window_max", "trailing"]
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbFilterPipeline.WindowOptions, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._debug = collections.defaultdict(dict)

        def _read(self):
            self._debug['len_window_max']['start'] = self._io.pos()
            self.len_window_max = self._io.read_u4le()
            self._debug['len_window_max']['end'] = self._io.pos()
            self._debug['trailing']['start'] = self._io.pos()
            self.trailing = self._io.read_bytes_full()
            self._debug['trailing']['end'] = self._io.pos()
            if not self.trailing == b"":
                raise kaitaistruct.ValidationNotEqualError(b"", self.trailing, self._io, u"/types/window_options/seq/1")


        def _fetch_instances(self):
            pass



