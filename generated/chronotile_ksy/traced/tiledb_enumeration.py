# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO
from chronotile_ksy.traced import tiledb_datatype
import collections


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class TiledbEnumeration(KaitaiStruct):
    """The payload of an enumeration file: labels, which attributes store by index.
    The name and the path stand before the datatype; the format's own page leaves
    them out.
    
    .. seealso::
       Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/enumeration.md
    """
    SEQ_FIELDS = ["version", "len_name", "name", "len_path_name", "path_name", "datatype", "cell_val_num", "ordered", "len_data", "data", "len_offsets", "offsets", "trailing"]
    def __init__(self, _io, _parent=None, _root=None):
        super(TiledbEnumeration, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._debug = collections.defaultdict(dict)

    def _read(self):
        self._debug['version']['start'] = self._io.pos()
        self.version = self._io.read_u4le()
        self._debug['version']['end'] = self._io.pos()
        if not self.version == 0:
            raise kaitaistruct.ValidationNotEqualError(0, self.version, self._io, u"/seq/0")
        self._debug['len_name']['start'] = self._io.pos()
        self.len_name = self._io.read_u4le()
        self._debug['len_name']['end'] = self._io.pos()
        if not self.len_name <= self._io.size() - self._io.pos():
            raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_name, self._io, u"/seq/1")
        self._debug['name']['start'] = self._io.pos()
        self.name = (self._io.read_bytes(self.len_name)).decode(u"UTF-8")
        self._debug['name']['end'] = self._io.pos()
        self._debug['len_path_name']['start'] = self._io.pos()
        self.len_path_name = self._io.read_u4le()
        self._debug['len_path_name']['end'] = self._io.pos()
        if not self.len_path_name <= self._io.size() - self._io.pos():
            raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_path_name, self._io, u"/seq/3")
        self._debug['path_name']['start'] = self._io.pos()
        self.path_name = (self._io.read_bytes(self.len_path_name)).decode(u"UTF-8")
        self._debug['path_name']['end'] = self._io.pos()
        self._debug['datatype']['start'] = self._io.pos()
        self.datatype = tiledb_datatype.TiledbDatatype(self._io)
        self.datatype._read()
        self._debug['datatype']['end'] = self._io.pos()
        self._debug['cell_val_num']['start'] = self._io.pos()
        self.cell_val_num = self._io.read_u4le()
        self._debug['cell_val_num']['end'] = self._io.pos()
        self._debug['ordered']['start'] = self._io.pos()
        self.ordered = self._io.read_u1()
        self._debug['ordered']['end'] = self._io.pos()
        if not self.ordered <= 1:
            raise kaitaistruct.ValidationGreaterThanError(1, self.ordered, self._io, u"/seq/7")
        self._debug['len_data']['start'] = self._io.pos()
        self.len_data = self._io.read_u8le()
        self._debug['len_data']['end'] = self._io.pos()
        if not self.len_data <= self._io.size() - self._io.pos():
            raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_data, self._io, u"/seq/8")
        self._debug['data']['start'] = self._io.pos()
        self.data = self._io.read_bytes(self.len_data)
        self._debug['data']['end'] = self._io.pos()
        if self.is_var:
            pass
            self._debug['len_offsets']['start'] = self._io.pos()
            self.len_offsets = self._io.read_u8le()
            self._debug['len_offsets']['end'] = self._io.pos()
            _ = self.len_offsets
            if not  ((_ % 8 == 0) and (_ <= self._io.size() - self._io.pos())) :
                raise kaitaistruct.ValidationExprError(self.len_offsets, self._io, u"/seq/10")

        if self.is_var:
            pass
            self._debug['offsets']['start'] = self._io.pos()
            self._debug['offsets']['arr'] = []
            self.offsets = []
            for i in range(self.len_offsets // 8):
                self._debug['offsets']['arr'].append({'start': self._io.pos()})
                self.offsets.append(self._io.read_u8le())
                self._debug['offsets']['arr'][i]['end'] = self._io.pos()

            self._debug['offsets']['end'] = self._io.pos()

        self._debug['trailing']['start'] = self._io.pos()
        self.trailing = self._io.read_bytes_full()
        self._debug['trailing']['end'] = self._io.pos()
        _ = self.trailing
        if not len(_) == 0:
            raise kaitaistruct.ValidationExprError(self.trailing, self._io, u"/seq/12")


    def _fetch_instances(self):
        pass
        self.datatype._fetch_instances()
        if self.is_var:
            pass

        if self.is_var:
            pass
            for i in range(len(self.offsets)):
                pass



    @property
    def is_var(self):
        if hasattr(self, '_m_is_var'):
            return self._m_is_var

        self._m_is_var = self.cell_val_num == 4294967295
        return getattr(self, '_m_is_var', None)


