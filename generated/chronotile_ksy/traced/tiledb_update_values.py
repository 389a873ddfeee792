# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO
from chronotile_ksy.traced import tiledb_operand
import collections


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class TiledbUpdateValues(KaitaiStruct):
    """What an update sets: a list of fields and their new values. It follows the
    condition in the same tile. Its sizes of names are 64 bits wide; those in the
    condition are 32.
    
    .. seealso::
       Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/update_commit_file.md
    """
    SEQ_FIELDS = ["num_values", "values"]
    def __init__(self, _io, _parent=None, _root=None):
        super(TiledbUpdateValues, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._debug = collections.defaultdict(dict)

    def _read(self):
        self._debug['num_values']['start'] = self._io.pos()
        self.num_values = self._io.read_u8le()
        self._debug['num_values']['end'] = self._io.pos()
        if not self.num_values <= (self._io.size() - self._io.pos()) // 16:
            raise kaitaistruct.ValidationGreaterThanError((self._io.size() - self._io.pos()) // 16, self.num_values, self._io, u"/seq/0")
        self._debug['values']['start'] = self._io.pos()
        self._debug['values']['arr'] = []
        self.values = []
        for i in range(self.num_values):
            self._debug['values']['arr'].append({'start': self._io.pos()})
            _t_values = TiledbUpdateValues.UpdateValue(self._io, self, self._root)
            try:
                _t_values._read()
            finally:
                self.values.append(_t_values)
            self._debug['values']['arr'][i]['end'] = self._io.pos()

        self._debug['values']['end'] = self._io.pos()


    def _fetch_instances(self):
        pass
        for i in range(len(self.values)):
            pass
            self.values[i]._fetch_instances()


    class UpdateValue(KaitaiStruct):
        """One field and its new value.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/update_commit_file.md
        """
        SEQ_FIELDS = ["len_field_name", "field_name", "len_value", "value"]
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbUpdateValues.UpdateValue, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._debug = collections.defaultdict(dict)

        def _read(self):
            self._debug['len_field_name']['start'] = self._io.pos()
            self.len_field_name = self._io.read_u8le()
            self._debug['len_field_name']['end'] = self._io.pos()
            if not self.len_field_name <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_field_name, self._io, u"/types/update_value/seq/0")
            self._debug['field_name']['start'] = self._io.pos()
            self.field_name = (self._io.read_bytes(self.len_field_name)).decode(u"UTF-8")
            self._debug['field_name']['end'] = self._io.pos()
            self._debug['len_value']['start'] = self._io.pos()
            self.len_value = self._io.read_u8le()
            self._debug['len_value']['end'] = self._io.pos()
            if not self.len_value <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_value, self._io, u"/types/update_value/seq/2")
            self._debug['value']['start'] = self._io.pos()
            self._raw_value = self._io.read_bytes(self.len_value)
            _io__raw_value = KaitaiStream(BytesIO(self._raw_value))
            self.value = tiledb_operand.TiledbOperand(_io__raw_value)
            self.value._read()
            self._debug['value']['end'] = self._io.pos()


        def _fetch_instances(self):
            pass
            self.value._fetch_instances()



