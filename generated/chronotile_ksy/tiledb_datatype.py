# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO
from enum import IntEnum


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class TiledbDatatype(KaitaiStruct):
    """One byte that names the type of a value, the length that follows from it, and
    types that show values as people read them.
    
    .. seealso::
       Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/tiledb/api/c_api/datatype/datatype_api_enum.h
    """

    class Codes(IntEnum):
        int32 = 0
        int64 = 1
        float32 = 2
        float64 = 3
        char = 4
        int8 = 5
        uint8 = 6
        int16 = 7
        uint16 = 8
        uint32 = 9
        uint64 = 10
        string_ascii = 11
        string_utf8 = 12
        string_utf16 = 13
        string_utf32 = 14
        string_ucs2 = 15
        string_ucs4 = 16
        any = 17
        datetime_year = 18
        datetime_month = 19
        datetime_week = 20
        datetime_day = 21
        datetime_hr = 22
        datetime_min = 23
        datetime_sec = 24
        datetime_ms = 25
        datetime_us = 26
        datetime_ns = 27
        datetime_ps = 28
        datetime_fs = 29
        datetime_as = 30
        time_hr = 31
        time_min = 32
        time_sec = 33
        time_ms = 34
        time_us = 35
        time_ns = 36
        time_ps = 37
        time_fs = 38
        time_as = 39
        blob = 40
        bool = 41
        geom_wkb = 42
        geom_wkt = 43
    def __init__(self, _io, _parent=None, _root=None):
        super(TiledbDatatype, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self.code = KaitaiStream.resolve_enum(TiledbDatatype.Codes, self._io.read_u1())
        if not isinstance(self.code, TiledbDatatype.Codes):
            raise kaitaistruct.ValidationNotInEnumError(self.code, self._io, u"/seq/0")


    def _fetch_instances(self):
        pass

    class TypedValues(KaitaiStruct):
        """Values of one datatype, one after the other. All but `raw` is for people
        who look at a tree; what is text, or has no form of its own, is one item.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/tiledb/api/c_api/datatype/datatype_api_enum.h
        """
        def __init__(self, code, _io, _parent=None, _root=None):
            super(TiledbDatatype.TypedValues, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self.code = code
            self._read()

        def _read(self):
            self.raw = self._io.read_bytes_full()


        def _fetch_instances(self):
            pass
            _ = self.items
            if hasattr(self, '_m_items'):
                pass
                for i in range(len(self._m_items)):
                    pass
                    _on = self.code
                    if _on == TiledbDatatype.Codes.any:
                        pass
                        self._m_items[i]._fetch_instances()
                    elif _on == TiledbDatatype.Codes.blob:
                        pass
                        self._m_items[i]._fetch_instances()
                    elif _on == TiledbDatatype.Codes.bool:
                        pass
                        self._m_items[i]._fetch_instances()
                    elif _on == TiledbDatatype.Codes.char:
                        pass
                        self._m_items[i]._fetch_instances()
                    elif _on == TiledbDatatype.Codes.float32:
                        pass
                        self._m_items[i]._fetch_instances()
                    elif _on == TiledbDatatype.Codes.float64:
                        pass
                        self._m_items[i]._fetch_instances()
                    elif _on == TiledbDatatype.Codes.geom_wkb:
                        pass
                        self._m_items[i]._fetch_instances()
                    elif _on == TiledbDatatype.Codes.geom_wkt:
                        pass
                        self._m_items[i]._fetch_instances()
                    elif _on == TiledbDatatype.Codes.int16:
                        pass
                        self._m_items[i]._fetch_instances()
                    elif _on == TiledbDatatype.Codes.int32:
                        pass
                        self._m_items[i]._fetch_instances()
                    elif _on == TiledbDatatype.Codes.int8:
                        pass
                        self._m_items[i]._fetch_instances()
                    elif _on == TiledbDatatype.Codes.string_ascii:
                        pass
                        self._m_items[i]._fetch_instances()
                    elif _on == TiledbDatatype.Codes.string_ucs2:
                        pass
                        self._m_items[i]._fetch_instances()
                    elif _on == TiledbDatatype.Codes.string_ucs4:
                        pass
                        self._m_items[i]._fetch_instances()
                    elif _on == TiledbDatatype.Codes.string_utf16:
                        pass
                        self._m_items[i]._fetch_instances()
                    elif _on == TiledbDatatype.Codes.string_utf32:
                        pass
                        self._m_items[i]._fetch_instances()
                    elif _on == TiledbDatatype.Codes.string_utf8:
                        pass
                        self._m_items[i]._fetch_instances()
                    elif _on == TiledbDatatype.Codes.uint16:
                        pass
                        self._m_items[i]._fetch_instances()
                    elif _on == TiledbDatatype.Codes.uint32:
                        pass
                        self._m_items[i]._fetch_instances()
                    elif _on == TiledbDatatype.Codes.uint64:
                        pass
                        self._m_items[i]._fetch_instances()
                    elif _on == TiledbDatatype.Codes.uint8:
                        pass
                        self._m_items[i]._fetch_instances()
                    else:
                        pass
                        self._m_items[i]._fetch_instances()



        @property
        def items(self):
            if hasattr(self, '_m_items'):
                return self._m_items

            _pos = self._io.pos()
            self._io.seek(0)
            self._m_items = []
            i = 0
            while not self._io.is_eof():
                _on = self.code
                if _on == TiledbDatatype.Codes.any:
                    pass
                    self._m_items.append(TiledbDatatype.ValueText(self._io, self, self._root))
                elif _on == TiledbDatatype.Codes.blob:
                    pass
                    self._m_items.append(TiledbDatatype.ValueText(self._io, self, self._root))
                elif _on == TiledbDatatype.Codes.bool:
                    pass
                    self._m_items.append(TiledbDatatype.ValueNumber(self.code, self._io, self, self._root))
                elif _on == TiledbDatatype.Codes.char:
                    pass
                    self._m_items.append(TiledbDatatype.ValueText(self._io, self, self._root))
                elif _on == TiledbDatatype.Codes.float32:
                    pass
                    self._m_items.append(TiledbDatatype.ValueNumber(self.code, self._io, self, self._root))
                elif _on == TiledbDatatype.Codes.float64:
                    pass
                    self._m_items.append(TiledbDatatype.ValueNumber(self.code, self._io, self, self._root))
                elif _on == TiledbDatatype.Codes.geom_wkb:
                    pass
                    self._m_items.append(TiledbDatatype.ValueText(self._io, self, self._root))
                elif _on == TiledbDatatype.Codes.geom_wkt:
                    pass
                    self._m_items.append(TiledbDatatype.ValueText(self._io, self, self._root))
                elif _on == TiledbDatatype.Codes.int16:
                    pass
                    self._m_items.append(TiledbDatatype.ValueNumber(self.code, self._io, self, self._root))
                elif _on == TiledbDatatype.Codes.int32:
                    pass
                    self._m_items.append(TiledbDatatype.ValueNumber(self.code, self._io, self, self._root))
                elif _on == TiledbDatatype.Codes.int8:
                    pass
                    self._m_items.append(TiledbDatatype.ValueNumber(self.code, self._io, self, self._root))
                elif _on == TiledbDatatype.Codes.string_ascii:
                    pass
                    self._m_items.append(TiledbDatatype.ValueText(self._io, self, self._root))
                elif _on == TiledbDatatype.Codes.string_ucs2:
                    pass
                    self._m_items.append(TiledbDatatype.ValueText(self._io, self, self._root))
                elif _on == TiledbDatatype.Codes.string_ucs4:
                    pass
                    self._m_items.append(TiledbDatatype.ValueText(self._io, self, self._root))
                elif _on == TiledbDatatype.Codes.string_utf16:
                    pass
                    self._m_items.append(TiledbDatatype.ValueText(self._io, self, self._root))
                elif _on == TiledbDatatype.Codes.string_utf32:
                    pass
                    self._m_items.append(TiledbDatatype.ValueText(self._io, self, self._root))
                elif _on == TiledbDatatype.Codes.string_utf8:
                    pass
                    self._m_items.append(TiledbDatatype.ValueText(self._io, self, self._root))
                elif _on == TiledbDatatype.Codes.uint16:
                    pass
                    self._m_items.append(TiledbDatatype.ValueNumber(self.code, self._io, self, self._root))
                elif _on == TiledbDatatype.Codes.uint32:
                    pass
                    self._m_items.append(TiledbDatatype.ValueNumber(self.code, self._io, self, self._root))
                elif _on == TiledbDatatype.Codes.uint64:
                    pass
                    self._m_items.append(TiledbDatatype.ValueNumber(self.code, self._io, self, self._root))
                elif _on == TiledbDatatype.Codes.uint8:
                    pass
                    self._m_items.append(TiledbDatatype.ValueNumber(self.code, self._io, self, self._root))
                else:
                    pass
                    self._m_items.append(TiledbDatatype.ValueS8(self._io, self, self._root))
                i += 1

            self._io.seek(_pos)
            return getattr(self, '_m_items', None)


    class ValueNumber(KaitaiStruct):
        """A number of any datatype but a signed one of 8 bytes.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/tiledb/api/c_api/datatype/datatype_api_enum.h
        """
        def __init__(self, code, _io, _parent=None, _root=None):
            super(TiledbDatatype.ValueNumber, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self.code = code
            self._read()

        def _read(self):
            _on = self.code
            if _on == TiledbDatatype.Codes.float32:
                pass
                self.value = self._io.read_f4le()
            elif _on == TiledbDatatype.Codes.float64:
                pass
                self.value = self._io.read_f8le()
            elif _on == TiledbDatatype.Codes.int16:
                pass
                self.value = self._io.read_s2le()
            elif _on == TiledbDatatype.Codes.int32:
                pass
                self.value = self._io.read_s4le()
            elif _on == TiledbDatatype.Codes.int8:
                pass
                self.value = self._io.read_s1()
            elif _on == TiledbDatatype.Codes.uint16:
                pass
                self.value = self._io.read_u2le()
            elif _on == TiledbDatatype.Codes.uint32:
                pass
                self.value = self._io.read_u4le()
            elif _on == TiledbDatatype.Codes.uint64:
                pass
                self.value = self._io.read_u8le()
            else:
                pass
                self.value = self._io.read_u1()


        def _fetch_instances(self):
            pass
            _on = self.code
            if _on == TiledbDatatype.Codes.float32:
                pass
            elif _on == TiledbDatatype.Codes.float64:
                pass
            elif _on == TiledbDatatype.Codes.int16:
                pass
            elif _on == TiledbDatatype.Codes.int32:
                pass
            elif _on == TiledbDatatype.Codes.int8:
                pass
            elif _on == TiledbDatatype.Codes.uint16:
                pass
            elif _on == TiledbDatatype.Codes.uint32:
                pass
            elif _on == TiledbDatatype.Codes.uint64:
                pass
            else:
                pass


    class ValueS8(KaitaiStruct):
        """A signed number of 8 bytes. It is put together from two halves: the
        JavaScript runtime's own s8 is off by 2^32 for some negative values.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/tiledb/api/c_api/datatype/datatype_api_enum.h
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbDatatype.ValueS8, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.low = self._io.read_u4le()
            self.high = self._io.read_s4le()


        def _fetch_instances(self):
            pass

        @property
        def value(self):
            if hasattr(self, '_m_value'):
                return self._m_value

            self._m_value = self.high * 4294967296 + self.low
            return getattr(self, '_m_value', None)


    class ValueText(KaitaiStruct):
        """Text, or bytes that have no other form.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/tiledb/api/c_api/datatype/datatype_api_enum.h
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbDatatype.ValueText, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.value = self._io.read_bytes_full()


        def _fetch_instances(self):
            pass


    @property
    def is_time(self):
        """Dates and times count units in a signed 64-bit integer."""
        if hasattr(self, '_m_is_time'):
            return self._m_is_time

        self._m_is_time =  ((int(self.code) >= int(TiledbDatatype.Codes.datetime_year)) and (int(self.code) <= int(TiledbDatatype.Codes.time_as))) 
        return getattr(self, '_m_is_time', None)

    @property
    def len_value(self):
        if hasattr(self, '_m_len_value'):
            return self._m_len_value

        self._m_len_value = (8 if  ((self.is_time) or (self.code == TiledbDatatype.Codes.int64) or (self.code == TiledbDatatype.Codes.uint64) or (self.code == TiledbDatatype.Codes.float64))  else (4 if  ((self.code == TiledbDatatype.Codes.int32) or (self.code == TiledbDatatype.Codes.uint32) or (self.code == TiledbDatatype.Codes.float32) or (self.code == TiledbDatatype.Codes.string_utf32) or (self.code == TiledbDatatype.Codes.string_ucs4))  else (2 if  ((self.code == TiledbDatatype.Codes.int16) or (self.code == TiledbDatatype.Codes.uint16) or (self.code == TiledbDatatype.Codes.string_utf16) or (self.code == TiledbDatatype.Codes.string_ucs2))  else 1)))
        return getattr(self, '_m_len_value', None)


